"""What goes wrong in a command, as its user should see it."""

from __future__ import annotations

import traceback
from pathlib import Path

import interlock
from interlock.errors import InterlockError, ProcessorError

_OWN_CODE = str(Path(interlock.__file__).parent)


class UsageFailure(Exception):
    """The command cannot start as it was given; the message is all that the user is shown."""


def describe(error: BaseException) -> str:
    """An error of a run: its message, with the user's own lines where their code raised it."""
    if isinstance(error, ProcessorError):
        lines = [] if error.__cause__ is None else _own_frames(error.__cause__)
        return "\n".join([str(error), *lines])
    if isinstance(error, InterlockError):
        return str(error)
    return own_traceback(error)


def own_traceback(error: BaseException) -> str:
    """A traceback without the frames of interlock and of the import system."""
    last = "".join(traceback.format_exception_only(error)).rstrip()
    return "\n".join([*_own_frames(error), last])


def _own_frames(error: BaseException) -> list[str]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_internal(frame.filename)]
    return [line.rstrip() for line in traceback.format_list(frames)]


def _is_internal(filename: str) -> bool:
    return filename.startswith(("<frozen ", _OWN_CODE))
