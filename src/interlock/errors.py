"""Everything interlock raises.

::

    InterlockError
    ├── TripWire                 control flow: a processor stopped the attempt or the run
    ├── ConfigurationError       an agent, a processor list or an option cannot work as given
    ├── InvalidMessageError      a message that cannot be read (``code`` says why)
    ├── ProcessorError           a hook raised (``processor_id``, ``hook``, ``__cause__``)
    │   ├── ProcessorReturnError    a hook returned something it may not return (``code``)
    │   └── ProcessorWorkflowError  a workflow of processors failed (``code``, ``workflow_id``, ``step_id``)
    ├── ModelError               a model could not answer
    │   └── APICallError         a provider refused or broke off (``status_code``, ``is_retryable``)
    ├── ToolError                a tool call could not be carried out
    ├── StructuredOutputError    the answer does not fit the requested schema
    ├── StorageError             a store could not read or write
    ├── RunNotFoundError         no stored run has that id
    ├── RunStateError            a stored run cannot be continued as asked
    └── ThreadOwnershipError     the thread belongs to another resource

A ``TripWire`` is not an error that a caller of an agent sees: a result or a stream carries it
(runtime-spec R6.5). Wrong arguments of a Python call raise ``TypeError`` or ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class InterlockError(Exception):
    """Root of every error that interlock raises."""


class TripWire(InterlockError):
    """Raised by ``abort()`` in a hook: stop this attempt, or ask for another try (R6.1).

    Args:
        reason: Shown to the caller; ``str(error)`` equals it.
        retry: Ask for another attempt of the same step, with the reason as feedback.
        metadata: Anything the processor wants the caller to have.
        processor_id: Id of the aborting processor; filled in by the pipeline when empty.
    """

    def __init__(
        self,
        reason: str | None = None,
        *,
        retry: bool = False,
        metadata: Any = None,
        processor_id: str = "",
    ) -> None:
        self.processor_id = processor_id
        self.reason = reason or ""
        self.retry = retry
        self.metadata = metadata
        super().__init__(reason)
        if processor_id:
            self.attribute_to(processor_id)

    def attribute_to(self, processor_id: str) -> None:
        """Name the processor, and give the default reason if there is none (R6.1, R6.2)."""
        self.processor_id = self.processor_id or processor_id
        self.reason = self.reason or f"Tripwire triggered by {self.processor_id}"
        self.args = (self.reason,)

    def __str__(self) -> str:
        return self.reason


class ConfigurationError(InterlockError):
    """An agent, a processor list or an option cannot work as given."""


class InvalidMessageError(InterlockError, ValueError):
    """A message that cannot be read; ``code`` is one of the codes of R3.3 and R3.4."""

    def __init__(self, message: str, *, code: str) -> None:
        self.code = code
        super().__init__(message)


class ProcessorError(InterlockError):
    """A hook raised an ordinary exception, which is this error's ``__cause__`` (R17.1)."""

    def __init__(self, message: str, *, processor_id: str, hook: str) -> None:
        self.processor_id = processor_id
        self.hook = hook
        super().__init__(message)

    @property
    def public_message(self) -> str:
        """What a client is told: the text of the exception may quote what the hook was to keep in."""
        return f"processor {self.processor_id!r} failed in {self.hook}"


class ProcessorReturnError(ProcessorError):
    """A hook returned something it may not return; ``code`` is one of those of R2.6."""

    def __init__(self, message: str, *, code: str, processor_id: str, hook: str) -> None:
        self.code = code
        super().__init__(message, processor_id=processor_id, hook=hook)


class ProcessorWorkflowError(ProcessorError):
    """A workflow of processors failed (section 16).

    Args:
        message: What happened.
        code: ``PROCESSOR_WORKFLOW_FAILED`` when a step raised, which is this error's ``__cause__`` (R16.9);
            ``PROCESSOR_WORKFLOW_INVALID_OUTPUT`` when a step's output cannot be passed on (R16.5, R16.7, R16.8).
        workflow_id: Id of the workflow that holds the step.
        step_id: Id of the step, such as ``processor:pii-detector``.
        processor_id: Id of the processor that raised; the workflow's own if it was a map or a condition.
        hook: The hook that ran.
    """

    def __init__(
        self, message: str, *, code: str, workflow_id: str, step_id: str, processor_id: str, hook: str
    ) -> None:
        self.code = code
        self.workflow_id = workflow_id
        self.step_id = step_id
        super().__init__(message, processor_id=processor_id, hook=hook)


class ModelError(InterlockError):
    """A model could not answer."""


class APICallError(ModelError):
    """A provider refused a call, or broke off its answer.

    Args:
        message: The provider's own words where there are any.
        status_code: HTTP status, ``None`` when no reply arrived.
        is_retryable: Whether the same request may succeed later (network, 408, 409, 429, 5xx).
        url: Where the request went, without query or credentials.
        response_headers: Reply headers, lower-case keys.
        response_body: Reply body as text, cut at 10,000 characters.
        code: The provider's own error code.
        retry_after_s: Seconds the provider asked to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        is_retryable: bool | None = None,
        url: str | None = None,
        response_headers: Mapping[str, str] | None = None,
        response_body: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status_code = status_code
        self.is_retryable = is_retryable_status(status_code) if is_retryable is None else is_retryable
        self.url = url
        self.response_headers = dict(response_headers or {})
        self.response_body = response_body
        self.code = code
        self.retry_after_s = retry_after_s
        super().__init__(message)


def is_retryable_status(status_code: int | None) -> bool:
    """Whether a call that ended with this HTTP status may succeed when repeated (R7.13)."""
    return status_code is None or status_code in (408, 409, 429) or status_code >= 500


class ToolError(InterlockError):
    """A tool call could not be carried out; the model is told the message (R10.13)."""


class StructuredOutputError(InterlockError):
    """The answer does not fit the requested schema (R12.33).

    Args:
        problems: One line for each place that is wrong, such as ``items[2].price: must be number, is string``.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        lines = [f"- {problem}" for problem in self.problems]
        super().__init__("\n".join(["the answer does not fit the requested schema:", *lines]))

    @property
    def public_message(self) -> str:
        """What a client is told: the problems quote the answer, which a hook may have kept in."""
        count = len(self.problems)
        return f"the answer does not fit the requested schema ({count} problem{'' if count == 1 else 's'})"


class StorageError(InterlockError):
    """A store could not read or write."""


class RunNotFoundError(InterlockError):
    """No stored run has that id (R12.37)."""


class RunStateError(InterlockError):
    """A stored run cannot be continued as asked (R12.37)."""


class ThreadOwnershipError(InterlockError):
    """The thread belongs to another resource (R13.1)."""
