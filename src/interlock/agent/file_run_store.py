"""Stored runs as files of a directory, for any number of processes (R12.37)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from interlock.agent.run_store import already_resumed, not_found
from interlock.agent.state_json import decode, encode
from interlock.errors import ConfigurationError, RunStateError, StorageError

_LOOKS = 5
"""How often to look for a run that somebody moves from name to name meanwhile."""


class FileRunStore:
    """Keeps stored runs in a directory, one file each, that any number of processes of one machine share.

    A file holds the run's messages and what was decided so far in clear, so the directory and its files are readable
    for their owner only. It is written beside its place and moved there: a crash leaves the old state or the new one.

    Three names tell how a run stands: ``….json`` waits, ``….taken.json`` was taken by a process that goes on with it,
    ``….done`` alone has come to its end. Taking a run renames its file, which succeeds for one process. If that process
    dies, or the run fails, the state stays there, and ``release`` gives it back. Files that end in ``.done`` may be
    deleted at any time, those in ``.tmp`` when no process writes.

    Args:
        path: The directory; made if it is missing.

    Raises:
        ConfigurationError: there is something else, or it cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"FileRunStore needs a directory that it can write to: {error}") from error

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        """Keep the state; it is on the disk afterwards.

        Raises:
            RunStateError: the state is no JSON.
            StorageError: it cannot be written.
        """
        await asyncio.to_thread(self._write, _Files(self.path, run_id), encode(state))

    async def load(self, run_id: str) -> dict[str, Any]:
        """Read a state without taking it.

        Raises:
            RunNotFoundError: no run of that id was ever stored here.
            RunStateError: the run was resumed already, or its file is damaged.
            StorageError: the file cannot be read.
        """
        files = _Files(self.path, run_id)
        with _told(f"run {run_id!r} cannot be read"):
            for _ in range(_LOOKS):
                with suppress(FileNotFoundError):
                    return _state_in(files.waiting.read_bytes(), files.waiting)
                files.check_absence()
        raise not_found(run_id)

    async def take(self, run_id: str) -> dict[str, Any]:
        """Take the state, for one of all who ask for it.

        Raises:
            RunNotFoundError: no run of that id was ever stored here.
            RunStateError: the run was resumed already, or its file is damaged; it stays where it is then.
            StorageError: the file cannot be read or moved.
        """
        # Nothing is awaited between the claim and its return: a cancellation cannot get lost in between.
        files = _Files(self.path, run_id)
        with _told(f"run {run_id!r} cannot be taken"):
            for _ in range(_LOOKS):
                try:
                    os.replace(files.waiting, files.taken)
                except FileNotFoundError:
                    files.check_absence()
                    continue
                try:
                    return _state_in(files.taken.read_bytes(), files.waiting)
                except BaseException:
                    os.replace(files.taken, files.waiting)
                    raise
        raise not_found(run_id)

    async def finish(self, run_id: str) -> None:
        """Throw the state of a run that was taken away, but remember that it was resumed.

        Raises:
            StorageError: the directory cannot be written to.
        """
        files = _Files(self.path, run_id)
        with _told(f"run {run_id!r} cannot be thrown away"):
            files.done.touch(mode=0o600)
            files.taken.unlink(missing_ok=True)

    async def release(self, run_id: str) -> None:
        """Give a run back whose process died, or that failed, so that somebody can go on with it once more.

        It goes on from where it was stored: a call that was carried out since is carried out again. Only who knows that
        no process is at work on the run may do this.

        Raises:
            RunNotFoundError: no run of that id was ever stored here.
            RunStateError: the run has come to its end.
            StorageError: the file cannot be moved.
        """
        files = _Files(self.path, run_id)
        try:
            os.replace(files.taken, files.waiting)
        except FileNotFoundError:
            await self.load(run_id)  # it waits already, or this raises what there is to say
        except OSError as error:
            raise StorageError(f"run {run_id!r} cannot be given back: {error}") from error

    def _write(self, files: _Files, text: bytes) -> None:
        with _told(f"run {files.run_id!r} cannot be stored"):
            try:
                with os.fdopen(os.open(files.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as draft:
                    draft.write(text)
                    draft.flush()
                    os.fsync(draft.fileno())
                # By way of the name of a run that was taken: nobody has anything to do with the run before all is done.
                os.replace(files.draft, files.taken)
                os.replace(files.taken, files.waiting)
            except BaseException:
                files.draft.unlink(missing_ok=True)
                raise
            _sync_directory(self.path)

    def __repr__(self) -> str:
        return f"FileRunStore({str(self.path)!r})"


class _Files:
    """The names of one run's files: what can be read of its id, and a digest that tells ids apart."""

    def __init__(self, directory: Path, run_id: str) -> None:
        readable = re.sub(r"[^a-z0-9-]", "_", run_id[:60].lower())
        digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = f"{readable}-{digest}"
        self.run_id = run_id
        self.waiting = directory / f"{name}.json"
        self.taken = directory / f"{name}.taken.json"
        self.done = directory / f"{name}.done"
        self.draft = directory / f"{name}.{secrets.token_hex(8)}.tmp"

    def check_absence(self) -> None:
        """Raise if the run is known, but does not wait.

        Raises:
            RunStateError: it was taken, or has ended.
        """
        if self.taken.exists():
            raise RunStateError(
                f"run {self.run_id!r} was resumed already and has not ended: it is in progress, it failed, or its "
                "process died; release() gives it back, once nobody is at work on it"
            )
        if self.done.exists():
            raise already_resumed(self.run_id)


def _state_in(text: bytes, path: Path) -> dict[str, Any]:
    try:
        state = decode(text)
    except RunStateError as error:
        raise RunStateError(f"the file {path} is damaged: {error}") from error
    if not isinstance(state, dict):
        raise RunStateError(f"the file {path} is damaged: it holds no run state")
    return state


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{what}: {error}") from error


def _sync_directory(path: Path) -> None:
    """Make sure that the names of files survive a power cut."""
    if os.name == "nt":
        return  # directories cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
