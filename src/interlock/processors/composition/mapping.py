"""The maps of a workflow: what they are told, and how what they return reaches the run (R16.6, R16.7, R16.12)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from interlock.errors import ProcessorReturnError, ProcessorWorkflowError
from interlock.messages import Message, MessageList
from interlock.processors.args import HookArgs, MessageHookArgs, ProcessOutputStreamArgs
from interlock.processors.bound import WorkflowStep
from interlock.processors.composition.branch_scope import BranchScope
from interlock.processors.composition.step_data import MapArgs, ProcessorStepData, read_step_data
from interlock.processors.stages import Stage

_Args = MessageHookArgs | ProcessOutputStreamArgs


class Fork(NamedTuple):
    """A branch that worked on a fork of the message list, and the stage that its hooks worked on."""

    scope: BranchScope
    stage: Stage | None


class Trail:
    """What one execution of a workflow has come by so far, for its maps."""

    __slots__ = ("_forks", "initial", "results")

    def __init__(self) -> None:
        self.initial: ProcessorStepData | None = None
        self.results: dict[str, ProcessorStepData] = {}
        self._forks: list[Fork] = []

    def begin(self, initial: ProcessorStepData) -> None:
        """The workflow begins, with this data."""
        self.initial = initial
        self.results = {}
        self._forks = []

    def keep_fork(self, fork: Fork) -> None:
        """Remember a branch, so that a map can select it."""
        self._forks.append(fork)

    def fork_of(self, message_list: MessageList) -> Fork | None:
        """The branch that worked on this list."""
        return next((fork for fork in self._forks if fork.scope.data.fork is message_list), None)


class BoundMap:
    """A function of ``.map``, in its workflow."""

    __slots__ = ("_function", "_step_ids", "step")

    def __init__(self, function: Callable[[MapArgs], Any], step: WorkflowStep, step_ids: Sequence[str]) -> None:
        self._function = function
        self._step_ids = step_ids
        self.step = step

    @property
    def is_async(self) -> bool:
        """Whether the function may have to wait."""
        return inspect.iscoroutinefunction(self._function)

    async def ask(self, input_data: Any, data: ProcessorStepData, trail: Trail, args: _Args) -> dict[str, Any]:
        """What the function wants, with its choice among the forks already taken over into the live list.

        Args:
            input_data: What the function is told first.
            data: The data at this place, outside of all branches.
            trail: What the workflow has come by.
            args: The hook's.

        Returns:
            The fields that it set; the messages among them are those of the live list wherever they are equal.

        Raises:
            ProcessorWorkflowError: it returned no step data.
            ProcessorReturnError: it returned a message list that is neither the live one nor a branch's.
        """
        told = MapArgs(input_data, trail.initial or data, args.request_context, trail.results, self._step_ids)
        value = self._function(told)
        if hasattr(value, "__await__"):
            value = await value
        fields = read_step_data(value)
        if fields is None:
            raise self._invalid(value, args)
        live = args._scope.data.message_list
        if isinstance(fields.get("message_list"), MessageList) and fields["message_list"] is not live:
            fork = trail.fork_of(fields["message_list"])
            if fork is None:
                raise self._external(args)
            live.adopt(fields["message_list"])
            if args._stage is not None and fork.stage is not None:
                args._stage.adopt(fork.stage)
        if isinstance(fields.get("messages"), (list, tuple)):
            fields["messages"] = [_live(message, live) for message in fields["messages"]]
        return fields

    def _invalid(self, value: Any, args: HookArgs) -> ProcessorWorkflowError:
        got = f"a mapping with the keys {sorted(map(str, value))}" if isinstance(value, dict) else type(value).__name__
        return invalid_output(
            self.step,
            args._hook,
            f"returned {got}; return a ProcessorStepData, such as args.input_data or one of its values, "
            "or a mapping with fields of one",
        )

    def _external(self, args: HookArgs) -> ProcessorReturnError:
        workflow_id, step_id = self.step
        return ProcessorReturnError(
            f"step {step_id!r} of workflow {workflow_id!r} returned a MessageList that is neither the run's nor a "
            "branch's; return the data of a step, or a list of messages",
            code="PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST",
            processor_id=workflow_id,
            hook=args._hook,
        )


def invalid_output(step: WorkflowStep, hook: str, what: str) -> ProcessorWorkflowError:
    """The error for output that cannot be passed on to the next step."""
    return ProcessorWorkflowError(
        f"step {step.step_id!r} of workflow {step.workflow_id!r} {what}",
        code="PROCESSOR_WORKFLOW_INVALID_OUTPUT",
        workflow_id=step.workflow_id,
        step_id=step.step_id,
        processor_id=step.workflow_id,
        hook=hook,
    )


def _live(message: Any, live: MessageList) -> Any:
    """The list's own object for a message that equals it: what did not change is not to be replaced."""
    known = live.get_by_id(message.id) if isinstance(message, Message) else None
    return message if known is None or known is message or known != message else known
