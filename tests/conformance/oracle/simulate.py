"""A scenario's calls from beginning to end: input, the loop with its retries, and the ways a run can end."""

from __future__ import annotations

import copy
import json

from ..scenario import Call, Scenario
from .attempt import Attempt, Facts, Step
from .conversation import Conversation, Message, stored_facts, text_part
from .course import STREAM_HOOK, CallCourse, Course
from .describe import describe, mentions
from .dispatch import Dispatcher, Site
from .hooks import Abort, HookFailure, ProviderFailure, Returned
from .returns import reconcile
from .world import World

DEFAULT_STEPS = 5
DEFAULT_RETRIES = 10
REFERENCE_ERROR_RETRIES = 3
"""How many error retries the reference grants when no limit is set."""
LAST_MESSAGES = 10

_RETRIABLE = frozenset(
    (
        "processInputStep",
        "processLLMRequest",
        "processOutputStream",
        "processLLMResponse",
        "processOutputStep",
        "processToolResult",
    )
)


def simulate(scenario: Scenario) -> Course:
    """What the specification says about all calls of ``scenario``."""
    world = World(scenario)
    calls = [CallRun(world, call).run() for call in scenario.calls]
    stored = world.threads.get("thread-1", [])
    return Course(calls, stored_facts(stored, scenario.stored_metadata) if scenario.has_memory else None)


class CallRun:
    """One call."""

    def __init__(self, world: World, call: Call) -> None:
        scenario = world.scenario
        self.world = world
        self.scenario = scenario
        self.call = call
        self.hooks = Dispatcher(scenario, call, world.invocations, world.saved)
        self.course: CallCourse = self.hooks.course
        self.explicit_limit = scenario.setting(call, "maxProcessorRetries")
        self.limit = self.explicit_limit
        if self.limit is None and self.hooks.arrays["error"]:
            self.limit = DEFAULT_RETRIES
        self.step_limit = scenario.setting(call, "maxSteps") or DEFAULT_STEPS
        self.attempt: Attempt | None = None
        self.accepted: list[Step] = []
        self.listed: list[str] = []
        """The texts of ``result.steps``."""
        self.partial = ""
        """Text of an attempt that failed for good."""
        self.last_accepted = 0
        """Which of them is that of the last accepted step."""
        self.usage: Facts = {}

    @property
    def conversation(self) -> Conversation:
        return self.hooks.conversation

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.accepted)

    def run(self) -> CallCourse:
        if any(not spec.hooks for array in self.hooks.arrays.values() for spec in array):
            self.course.depart("D83")
            self.course.error = {"raised": True, "mentions": []}
            return self.course
        try:
            self._process_input()
        except HookFailure as failure:
            self.course.error = {"raised": True} | mentions(failure)
            return self.course
        except Abort as abort:
            self._trip(abort)
            return self.course
        self.hooks.to_client({"type": "start"})
        try:
            self._end(self._loop())
        except Abort as abort:
            self._trip(abort)
        except HookFailure as failure:
            self._fail(failure)
        return self.course

    # -- input -----------------------------------------------------------------------------------------------------

    def _process_input(self) -> None:
        conversation, hooks = self.conversation, self.hooks
        conversation.add_system(self.scenario.instructions)
        if self.scenario.has_memory:
            for message in self.world.threads.get(self.call.thread, [])[-LAST_MESSAGES:]:
                conversation.add(copy.deepcopy(message), "memory")
        for message in _input(self.call):
            conversation.add(message, "input")
        for place, spec in hooks.having("input", "processInput"):
            call = hooks.call(spec, "processInput", place, Site(), Returned.SAME_LIST)
            reconcile(hooks, call.returned, call.messages, "input")
        self.baseline = list(conversation.system)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _loop(self) -> ProviderFailure | None:
        """Attempts until a step ends the run; the provider's failure if none could recover from it.

        Raises:
            Abort, HookFailure: they ended the run.
        """
        status = self.hooks.status
        while True:
            status.attempt += 1
            status.buffer = []
            status.is_assembled = False
            self.conversation.system = list(self.baseline)
            attempt = self.attempt = Attempt(self.hooks, self.scenario, self.call, self.world, self.step_limit)
            try:
                failure, goes_on = self._outcome(attempt)
            except Abort as abort:
                if not self._may_retry(abort):
                    raise
                self._reject(attempt, abort)
                continue
            if failure is not None and self._recovers(attempt, failure):
                continue
            if failure is not None:
                try:
                    self._surface(attempt, failure)
                except Abort as abort:
                    if not self._may_retry(abort):
                        raise
                    self._reject(attempt, abort)
                    continue
                return failure
            self._accept(attempt.step)
            if not goes_on:
                return None
            status.step += 1

    def _outcome(self, attempt: Attempt) -> tuple[ProviderFailure | None, bool]:
        """Run the attempt: the provider's failure, or whether the loop goes on."""
        try:
            return None, self._counted(attempt)
        except ProviderFailure as failure:
            self.course.marks.add("failed-attempt")
            return failure, False

    def _counted(self, attempt: Attempt) -> bool:
        """Run the attempt; its usage counts as soon as it has a response, whatever becomes of it (R12.22)."""
        try:
            return attempt.run()
        finally:
            if attempt.has_response:
                self.usage = _sum(self.usage, attempt.step.usage)

    def _accept(self, step: Step) -> None:
        if step.text and any(step.text == other.text for other in self.accepted):
            self.course.marks.add("same-text")
        self.accepted.append(step)
        self.last_accepted = len(self.listed)
        self.listed.append(step.text)
        self.conversation.feedback = None
        self.hooks.status.accepted += 1
        self.hooks.status.retries_of_step = 0

    def _may_retry(self, abort: Abort) -> bool:
        can = self.limit is not None and self.hooks.status.retries < self.limit
        return abort.retry and abort.hook in _RETRIABLE and can

    def _reject(self, attempt: Attempt, abort: Abort) -> None:
        if abort.hook != "processOutputStep":
            self.course.depart("D5")
        if self.explicit_limit is None:
            self.course.depart("D6")
        if attempt.has_response:
            self.listed.append("")
        self.course.marks.add("rejected-attempt")
        self.partial = ""
        self._repeat(attempt)
        self.hooks.status.abort_retries += 1
        self.conversation.feedback = abort.reason

    def _recovers(self, attempt: Attempt, failure: ProviderFailure) -> bool:
        """Ask the error processors; whether a retry was granted.

        Raises:
            Abort: one of them turned the failure into a tripwire.
        """
        hooks, status = self.hooks, self.hooks.status
        self._note_reference_hooks()
        asked = False
        for place, spec in hooks.having("error", "processAPIError"):
            site = Site(facts={"error": str(failure)})
            try:
                returned = hooks.call(spec, "processAPIError", place, site, Returned.NOTHING).returned
            except HookFailure:
                continue
            asked = isinstance(returned, dict) and bool(returned.get("retry"))
            if asked:
                break
        if not asked or self.limit is None or status.retries >= self.limit:
            return False
        if self.explicit_limit is None and status.retries >= REFERENCE_ERROR_RETRIES:
            self.course.depart("D6")
        if attempt.survivors[1:]:
            self.course.depart("D36")
        self._repeat(attempt)
        return True

    def _note_reference_hooks(self) -> None:
        """The reference runs the output step of a failed attempt, where a rule may change its course."""
        hooks = self.hooks
        for _, spec in hooks.having("output", "processOutputStep"):
            if any(rule.do and not rule.when for rule in spec.hooks["processOutputStep"]):
                hooks.course.depart("D32")

    def _repeat(self, attempt: Attempt) -> None:
        """Close a rejected or failed attempt, and count the retry (R7.6, R7.9, R7.10)."""
        status = self.hooks.status
        if status.attempt + 1 >= self.step_limit:
            self.course.depart("D7")
        if attempt.has_started:
            self._close(attempt)
        self.conversation.remove_attempt(status.attempt)
        status.buffer = []
        status.retries += 1
        status.retries_of_step += 1

    def _close(self, attempt: Attempt) -> None:
        """Show the end of an attempt that is repeated; a hook that asks for its repetition once more is ignored."""
        chunk = {"type": "step-finish", "reason": "retry", "isContinued": True}
        try:
            attempt.send(chunk)
        except Abort as abort:
            if not abort.retry:
                raise
            self.hooks.to_client(chunk)

    def _surface(self, attempt: Attempt, failure: ProviderFailure) -> None:
        """Nothing recovered the provider's failure: show it, and keep what arrived (R17.4, R17.5).

        Raises:
            Abort: a stream hook aborted meanwhile.
        """
        hooks = self.hooks
        self.partial = attempt.step.text
        attempt.assemble()
        for part in (part for message in self.conversation.messages for part in message.tools):
            if part["state"] == "call" and part.get("attempt") == hooks.status.attempt:
                part |= {"state": "output-error", "error": "not executed"}
        self.conversation.add_part({"type": "error", "attempt": hooks.status.attempt})
        said = {"type": "error"} | describe(str(failure), self.scenario)
        hooks.to_client(hooks.through(said) or said)
        attempt.send({"type": "step-finish", "reason": "error", "isContinued": False})

    # -- the ends --------------------------------------------------------------------------------------------------

    def _end(self, failure: ProviderFailure | None) -> None:
        """A run that came to its end, or whose provider failed for good (R1.14, R17.4)."""
        hooks, attempt = self.hooks, self.attempt
        assert attempt is not None
        reason = "error" if failure is not None else self.accepted[-1].reason
        text = self._process_output_result(reason, self.text + self.partial)
        if self.scenario.has_memory:
            self._save()
        hooks.to_client({"type": "finish", "reason": reason, "usage": self.usage})
        if failure is None:
            self.course.result = self._result(text, reason) | self._object(text)
        elif self.call.is_stream:
            self.course.result = self._result(text, reason) | {"error": describe(str(failure), self.scenario)}
        else:
            self.course.error = {"raised": True} | describe(str(failure), self.scenario)

    def _process_output_result(self, reason: str, reached: str) -> str:
        """Run the hook; the run's text after it (R2.35), which is ``reached`` if the hook changed nothing."""
        hooks, text = self.hooks, self.text
        before = self.conversation.response_text()
        steps = [
            {
                "text": step.text,
                "toolCalls": len(step.calls),
                "toolResults": len(step.results),
                "finishReason": step.reason,
            }
            for step in self.accepted
        ]
        for place, spec in hooks.having("output", "processOutputResult"):
            site = Site(
                facts={"text": text, "finishReason": reason},
                text=text,
                response_only=True,
                extra={"usage": self.usage, "resultSteps": steps},
            )
            call = hooks.call(spec, "processOutputResult", place, site, Returned.SAME_LIST)
            if call.returned == []:
                self.course.marks.add("response-removed")
            reconcile(hooks, call.returned, call.messages, "response")
        after = self.conversation.response_text()
        if after == before:
            return reached
        if self.accepted:
            self.listed[self.last_accepted] = after
        return after

    def _fail(self, failure: HookFailure) -> None:
        """A hook raised: the run fails at that place (R17.2)."""
        said = mentions(failure)
        self.course.depart("D30" if failure.hook == STREAM_HOOK else "D34")
        self.hooks.to_client({"type": "error"} | said)
        if self.call.is_stream:
            self.course.result = self._result(self.text + self.partial, "error") | {"error": said}
        else:
            self.course.error = {"raised": True} | said

    def _trip(self, abort: Abort) -> None:
        """An abort ended the run (R6.5 to R6.8)."""
        course = self.course
        course.marks.add("tripped")
        course.marks.add(f"tripped in {abort.hook}")
        course.depart("D24", "hooks", "prompts")
        course.depart("D20", "chunks")
        course.depart("D25", "stored")
        if abort.hook == "processAPIError":
            course.depart("D28", "result")
        was_accepted = abort.hook in ("processInput", "processOutputResult")
        if self.attempt is not None and self.attempt.has_response and not was_accepted:
            self.listed.append("")
        self.hooks.to_client({"type": "tripwire"} | abort.facts)
        text = "" if abort.hook == "processOutputResult" else self.text
        course.result = self._result(text, "other") | {"tripwire": abort.facts}

    def _result(self, text: str, reason: str) -> Facts:
        steps = self.accepted
        facts: Facts = {
            "text": text,
            "finishReason": reason,
            "steps": len(self.listed),
            "stepTexts": list(self.listed),
            "usage": dict(self.usage),
            "totalUsage": dict(self.usage),
            "toolCalls": [call["toolName"] for step in steps for call in step.calls],
            "toolResults": [result for step in steps for result in step.results],
        }
        counts = {
            "reasoningText": "".join(step.reasoning for step in steps),
            "sources": sum(step.sources for step in steps),
            "files": sum(step.files for step in steps),
        }
        return facts | {name: value for name, value in counts.items() if value}

    def _object(self, text: str) -> Facts:
        if "structuredOutput" not in self.call.options:
            return {}
        try:
            return {"object": json.loads(text)}
        except ValueError:
            return {}

    def _save(self) -> None:
        """What the memory keeps: input and response as they now are (R13.9, R13.10)."""
        thread = self.world.threads.setdefault(self.call.thread, [])
        for message in self.conversation.of("input", "response"):
            twin = copy.deepcopy(message)
            twin.parts = [{key: value for key, value in part.items() if key != "attempt"} for part in twin.parts]
            if not any(part["type"] != "step-start" for part in twin.parts):
                continue
            place = next((i for i, other in enumerate(thread) if other.id == twin.id), None)
            if place is None:
                thread.append(twin)
            else:
                thread[place] = twin
        thread.sort(key=lambda message: message.time)


def _input(call: Call) -> list[Message]:
    if isinstance(call.messages, str):
        return [Message("user", [text_part(call.messages)])] if call.messages else []
    return [Message(item.role, [text_part(item.text)]) for item in call.messages]


def _sum(total: Facts, counts: Facts) -> Facts:
    known = {name: value for name, value in counts.items() if value is not None}
    if "totalTokens" not in known and known:
        known["totalTokens"] = known.get("inputTokens", 0) + known.get("outputTokens", 0)
    return {name: total.get(name, 0) + known.get(name, 0) for name in {**total, **known}}
