"""Ways around a guard: what it took out turns up nowhere, whatever else happens to the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, Chunk, Processor, TextDelta, Tool
from interlock.chunks import TextDeltaPayload, chunk_to_dict
from interlock.errors import RunStateError
from interlock.messages.parts import TextPart, ToolInvocation, ToolInvocationPart
from interlock.processors import sequence
from interlock.testing import reasoning, tool_call, tool_input
from interlock.usage import Usage
from tests.agent.kit import made_sync, stored
from tests.field_reports.cases import as_text, results_in
from tests.field_reports.watch import SECRET, Watch

pytestmark = pytest.mark.anyio

OUTPUT_HOOKS = ["process_output_step", "process_output_result"]


def clean(value: Any) -> Any:
    """``value`` without the secret."""
    if isinstance(value, str):
        return value.replace(SECRET, "X")
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value


def clean_texts(args: Any) -> None:
    """Clean the text of all messages in place."""
    for message in args.messages:
        for part in message.content.parts:
            if isinstance(part, TextPart):
                part.text = clean(part.text)


def clean_result(args: Any) -> None:
    """Put a clean result in place of a tool's."""
    invocation = ToolInvocation(state="result", tool_call_id=args.tool_call_id, result=clean(args.result))
    args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))


def without(*kinds: str) -> Any:
    """A hook that takes all parts of these types out in place."""

    def process(args: Any) -> None:
        for message in args.messages:
            message.content.parts = [part for part in message.content.parts if part.type not in kinds]

    return process


def tool_of(result: Any, **settings: Any) -> Tool:
    """A tool ``t`` that returns ``result``."""
    return Tool(id="t", execute=lambda args: result, **settings)


def provider_call(**fields: Any) -> dict[str, Any]:
    """A call of a tool of the provider's own, with the secret in its arguments."""
    payload = {"toolCallId": "c1", "toolName": "search", "args": {"q": SECRET}, "providerExecuted": True}
    return {"type": "tool-call", "payload": {**payload, **fields}}


def provider_outcome(kind: str, **fields: Any) -> dict[str, Any]:
    """What that call came to; some providers repeat the arguments."""
    return {"type": kind, "payload": {**provider_call()["payload"], **fields}}


def call_of_a_provider() -> list[dict[str, Any]]:
    """Such a call with its result."""
    return [provider_call(), provider_outcome("tool-result", result=f"found {SECRET}")]


def ending() -> dict[str, Any]:
    """The end of a reply whose provider quotes it once more."""
    payload = {
        "stepResult": {"reason": "stop", "logprobs": [{"token": SECRET}]},
        "output": {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}},
        "providerMetadata": {"p": {"quote": SECRET}},
    }
    return {"type": "finish", "payload": payload}


@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_a_message_without_parts_is_not_its_legacy_text_again(hook: str) -> None:
    """R4.2, R4.20: of a message whose parts were removed nothing is left"""
    watch = Watch(["ok"], input_processors=[made_sync(**{hook: without("text")})])
    await watch.run(f"my card is {SECRET}")
    assert await watch.places() == []


async def test_a_copy_without_parts_is_not_its_legacy_text_again() -> None:
    """R3.22, R4.2"""

    def empty(args: Any) -> list[Any]:
        copies = [message.to_dict() for message in args.messages]
        for copy in copies:
            copy["content"]["parts"] = []
        return copies

    watch = Watch(["ok"], input_processors=[made_sync(process_input=empty)])
    await watch.run(f"my card is {SECRET}")
    assert await watch.places() == []


@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
async def test_an_answer_without_parts_is_neither_stored_nor_sent(hook: str) -> None:
    """R4.2, R2.31, R2.35"""
    watch = Watch([f"it is {SECRET}", "ok"], output_processors=[made_sync(**{hook: without("text")})])
    await watch.run()
    outcome = await watch.run("and now?")
    assert SECRET not in as_text([watch.model.prompts, await stored(watch.store)])
    assert SECRET not in as_text([outcome.text, outcome.content, outcome.response.db_messages])
    assert SECRET not in repr(watch.told["on_finish"][0].steps[0].parts)


async def test_reasoning_that_was_removed_is_in_no_result() -> None:
    """R2.31, R2.35, R12.21"""
    for hook in OUTPUT_HOOKS:
        watch = Watch(
            [[*reasoning(f"think {SECRET}"), "fine"]], output_processors=[made_sync(**{hook: without("reasoning")})]
        )
        outcome = await watch.run()
        assert outcome.reasoning_text is None
        assert SECRET not in as_text([outcome.content, [step.reasoning for step in outcome.steps]])
        assert SECRET not in as_text(await stored(watch.store))


async def test_reasoning_in_a_copy_takes_the_place_of_the_original() -> None:
    """R2.31, R2.35, R3.22"""

    def copies(args: Any) -> list[Any]:
        return [clean(message.to_dict()) for message in args.messages]

    for hook in OUTPUT_HOOKS:
        watch = Watch([[*reasoning(f"think {SECRET}"), "fine"]], output_processors=[made_sync(**{hook: copies})])
        outcome = await watch.run()
        assert outcome.reasoning_text == "think X"
        assert SECRET not in as_text([outcome.content, [step.reasoning for step in outcome.steps]])
        assert SECRET not in as_text(await stored(watch.store))


async def test_reasoning_that_was_edited_in_place_is_not_in_its_details_again() -> None:
    """R2.2, R4.15"""

    def edit(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if part.type == "reasoning":
                    part.reasoning = clean(part.reasoning)

    watch = Watch(
        [[*reasoning(f"think {SECRET}", signature="s"), "fine"], "ok"],
        output_processors=[made_sync(process_output_step=edit)],
    )
    await watch.run()
    await watch.run("and now?")
    assert SECRET not in as_text([watch.model.prompts, await stored(watch.store)])


async def test_sources_and_files_that_were_removed_are_in_no_result() -> None:
    """R2.31, R2.35, R12.21"""
    source = {"type": "source", "payload": {"id": "s", "sourceType": "url", "url": f"https://x/{SECRET}"}}
    file = {"type": "file", "payload": {"data": "QUJD", "mimeType": "image/png", "filename": SECRET}}
    for hook in OUTPUT_HOOKS:
        guard = made_sync(**{hook: without("source", "file")})
        outcome = await Watch([[source, file, "fine"]], output_processors=[guard]).run()
        assert SECRET not in as_text([outcome.sources, outcome.files, outcome.content])


async def test_tool_results_that_the_last_hook_cleaned_are_clean_in_the_result() -> None:
    """R2.35, R12.21"""

    def edit(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, ToolInvocationPart):
                    part.tool_invocation.result = clean(part.tool_invocation.result)

    watch = Watch(
        [tool_call("t"), "ok"], tools=[tool_of(SECRET)], output_processors=[made_sync(process_output_result=edit)]
    )
    outcome = await watch.run()
    assert SECRET not in as_text([outcome.tool_results, outcome.response.messages, await stored(watch.store)])


@pytest.mark.parametrize("way", ["another value", "in place", "a copy of the message"])
@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
async def test_arguments_that_were_cleaned_are_not_repeated_by_the_result(hook: str, way: str) -> None:
    """R2.30, R2.35, R12.21"""

    def edit(args: Any) -> Any:
        if way == "a copy of the message":
            return [clean(message.to_dict()) for message in args.messages]
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, ToolInvocationPart):
                    if way == "in place":
                        part.tool_invocation.args["deep"]["q"] = "X"
                    else:
                        part.tool_invocation.args = clean(part.tool_invocation.args)
        return None

    tool = Tool(id="t", execute=lambda args: "r", input_schema={"type": "object"})
    turns = [tool_call("t", {"deep": {"q": SECRET}}), "ok"]
    watch = Watch(turns, tools=[tool], output_processors=[made_sync(**{hook: edit})])
    outcome = await watch.run()
    assert [one.payload.args for one in (*outcome.tool_calls, *outcome.tool_results)] == [{"deep": {"q": "X"}}] * 2
    assert SECRET not in repr([outcome.steps, watch.told["on_finish"], watch.told["on_abort"]])
    assert SECRET not in as_text([outcome.response.messages, await stored(watch.store)])


async def test_an_edit_through_the_steps_reaches_the_prompt() -> None:
    """R2.2, R2.5: the parts of a step are those of the message"""

    def edit(args: Any) -> None:
        for step in args.steps if args.step_number == 2 else ():
            for part in step.parts:
                if isinstance(part, TextPart):
                    part.text = clean(part.text)

    model_turns = [[f"say {SECRET}", tool_call("t")], [tool_call("t")], "ok"]
    watch = Watch(model_turns, tools=[tool_of("r")], input_processors=[made_sync(process_input_step=edit)])
    await watch.agent.generate("hi")
    assert SECRET in as_text(watch.model.prompts[1])
    assert SECRET not in as_text(watch.model.prompts[2])


async def test_a_legacy_mirror_does_not_keep_what_was_taken_out_of_the_parts() -> None:
    """R4.2, R13.12"""

    def edit(args: Any) -> None:
        for message in args.messages:
            parts = [part for part in message.content.parts if part.type not in ("file", "reasoning")]
            for part in parts:
                if isinstance(part, ToolInvocationPart):
                    part.tool_invocation.args = clean(part.tool_invocation.args)
                    part.tool_invocation.result = clean(part.tool_invocation.result)
            message.content.parts = parts

    call = {"state": "result", "toolCallId": "c", "toolName": "t", "args": {"q": SECRET}, "result": SECRET}
    thought = {"type": "reasoning", "reasoning": SECRET}
    messages = [
        {
            "role": "user",
            "content": "hi",
            "experimental_attachments": [{"url": "data:text/plain;base64,QUJD", "name": SECRET}],
        },
        {"role": "assistant", "content": "", "toolInvocations": [call]},
        {"role": "user", "content": "why?"},
        {
            "role": "assistant",
            "content": {"format": 2, "parts": [thought, {"type": "text", "text": "a"}], "reasoning": SECRET},
        },
        {"role": "user", "content": "so?"},
    ]
    watch = Watch(["ok"], input_processors=[made_sync(process_input=edit)])
    await watch.run(messages)
    assert SECRET not in as_text([watch.model.prompts, await stored(watch.store)])


def spoken(result: Any) -> dict[str, Any]:
    """A ``to_model_output`` that quotes the result."""
    return {"type": "text", "value": f"it is {result['v']}"}


async def test_what_a_tool_says_to_the_model_follows_its_result_when_that_is_edited() -> None:
    """R10.7, R10.10, R4.11"""

    def in_place(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, ToolInvocationPart):
                    part.tool_invocation.result = clean(part.tool_invocation.result)

    def by_update(args: Any) -> None:
        if args.step_number == 1:
            invocation = ToolInvocation(state="result", tool_call_id="c1", result={"v": "X"})
            args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))

    for edit in (in_place, by_update):
        watch = Watch(
            [tool_call("t", id="c1"), "ok"],
            tools=[tool_of({"v": SECRET}, to_model_output=spoken)],
            input_processors=[made_sync(process_input_step=edit)],
        )
        await watch.run()
        assert results_in(watch.model.prompts[1])["c1"] == {"type": "json", "value": {"v": "X"}}
        assert SECRET not in as_text(await stored(watch.store))


async def test_content_that_a_client_sends_follows_its_result_when_that_is_edited() -> None:
    """R3.5, R4.11"""

    def edit(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, ToolInvocationPart):
                    part.tool_invocation.result = clean(part.tool_invocation.result)

    output = {"type": "content", "value": [{"type": "text", "text": SECRET}]}
    messages = [
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": output}]},
    ]
    watch = Watch(["ok"], input_processors=[made_sync(process_input=edit)])
    await watch.run(messages)
    assert await watch.places() == []


async def test_a_dropped_call_of_the_providers_does_not_come_back_with_its_outcome() -> None:
    """R2.27, R10.12"""
    drop = made_sync(process_output_stream=lambda args: None if args.part.type == "tool-call" else args.part)
    for outcome in (
        provider_outcome("tool-result", result=f"found {SECRET}"),
        provider_outcome("tool-error", error=f"not found: {SECRET}"),
    ):
        watch = Watch([[provider_call(), outcome, "ok"], "ok"], output_processors=[drop])
        await watch.run()
        await watch.run("and now?")
        assert await watch.places() == []


async def test_a_call_of_the_providers_that_was_held_back_gets_its_result_when_it_is_released() -> None:
    """R2.25, R2.27, R10.12, R19.2"""

    class HoldsCalls(Processor):
        id = "holds-calls"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type != "tool-call":
                return args.part
            args.part.payload.args = clean(args.part.payload.args)
            args.state["held"] = args.part
            return None

        def flush_output_stream(self, args: Any, reason: str) -> Any:
            return args.state.pop("held", None)

    turns = [[provider_call(), provider_outcome("tool-result", result="found"), "ok"], "ok"]
    watch = Watch(turns, output_processors=[HoldsCalls()])
    outcome = await watch.run()
    await watch.run("and now?")
    assert await watch.places() == []
    assert outcome.tool_results[0].payload.result == "found"
    assert [part["type"] for part in watch.model.prompts[1][1]["content"]][:2] == ["text", "tool-call"]


@pytest.mark.parametrize("kind", ["tool-result", "tool-error"])
async def test_an_outcome_of_the_providers_does_not_repeat_the_arguments_that_were_cleaned(kind: str) -> None:
    """R5.11, R10.12"""

    def edit(args: Any) -> Chunk:
        part: Any = args.part
        if part.type == "tool-call":
            part.payload.args = clean(part.payload.args)
        return part  # type: ignore[no-any-return]

    outcome = provider_outcome(kind, **({"result": "found"} if kind == "tool-result" else {"error": "no"}))
    watch = Watch([[provider_call(), outcome, "ok"], "ok"], output_processors=[made_sync(process_output_stream=edit)])
    await watch.run()
    await watch.run("and now?")
    assert await watch.places() == []


async def test_a_tools_observers_are_not_told_of_input_that_was_dropped() -> None:
    """R2.25, R10.17"""
    heard: list[Any] = []
    tool = tool_of("r", on_input_delta=heard.append, on_input_available=heard.append)

    def drop(args: Any) -> Any:
        if args.part.type == "tool-call":
            args.part.payload.args = clean(args.part.payload.args)
        return None if args.part.type == "tool-call-delta" else args.part

    watch = Watch(
        [tool_input("t", '{"q":"', SECRET, '"}'), "ok"],
        tools=[tool],
        output_processors=[made_sync(process_output_stream=drop)],
    )
    await watch.run()
    assert await watch.places() == []
    assert [event.args for event in heard] == [{"q": "X"}]


async def test_a_chunk_whose_type_was_changed_in_place_is_of_that_type() -> None:
    """R2.26"""
    ran: list[Any] = []

    def hide(args: Any) -> Any:
        if args.part.type in ("text-delta", "tool-call"):
            args.part.type = "data-hidden"
        return args.part

    watch = Watch(
        [[f"say {SECRET}", tool_call("t", {"q": SECRET})]],
        tools=[Tool(id="t", execute=ran.append)],
        output_processors=[made_sync(process_output_stream=hide)],
    )
    outcome = await watch.run()
    assert outcome.text == ""
    assert ran == []
    assert SECRET not in as_text([outcome.tool_calls, outcome.response.messages, await stored(watch.store)])


async def test_what_a_replacement_leaves_out_of_the_content_stays_out() -> None:
    """R2.26: only ids and the run are taken from the chunk that is replaced"""

    def strip(args: Any) -> Any:
        if args.part.type in ("tool-call", "tool-result", "text-delta"):
            return {"type": args.part.type, "payload": {"text": ""} if args.part.type == "text-delta" else {}}
        return args.part

    watch = Watch(
        [[{"type": "text-delta", "payload": {"id": "t", "text": "a", "providerMetadata": {"x": {"y": SECRET}}}}],
         tool_call("t", {"q": SECRET}, id="c1"), "ok"],
        tools=[tool_of("r")],
        output_processors=[made_sync(process_output_stream=strip)],
    )  # fmt: skip
    await watch.run()
    await watch.run("and now?")
    assert await watch.places() == []


async def test_what_follows_a_replayed_reply_is_not_called_replayed() -> None:
    """R11.4: a guard that lets replayed chunks pass must see the result of a tool that runs now"""
    seen: dict[str, bool] = {}

    def look(args: Any) -> Any:
        seen[args.part.type] = args.from_cache
        return args.part

    def replay(args: Any) -> Any:
        return {"response": {"chunks": [tool_call("t", id="c1")]}} if args.step_number == 0 else None

    watch = Watch(
        ["ok"],
        tools=[tool_of("r")],
        input_processors=[made_sync("cache", process_llm_request=replay)],
        output_processors=[made_sync(process_output_stream=look)],
    )
    await watch.run()
    assert seen["tool-call"] is True
    assert seen["tool-result"] is seen["step-finish"] is seen["text-delta"] is False


async def test_what_a_hook_took_out_of_the_providers_facts_is_in_no_result() -> None:
    """R2.25, R5.9, R12.24"""
    kept: list[Any] = []
    facts = {"type": "response-metadata", "payload": {"id": "r", "headers": {"x": SECRET}}}
    keeper = made_sync(process_llm_response=lambda args: kept.extend([args.raw_response, args.chunks]))
    drop = made_sync(process_output_stream=lambda args: None if args.part.type == "response-metadata" else args.part)
    watch = Watch([[facts, "ok"]], input_processors=[keeper], output_processors=[drop])
    outcome = await watch.run()
    assert outcome.response.headers is None
    assert SECRET not in as_text(kept)
    assert await watch.places() == []


def signed_reasoning(text: str) -> list[Any]:
    """Reasoning with everything that providers want back beside its words."""
    chunks: list[Any] = reasoning(text, id=text, signature="of the words")
    for chunk in (chunks[0], chunks[-1]):
        chunk.payload.provider_metadata = {"p": {"signature": "of the words", "encrypted": "the words"}}
    return chunks


@pytest.mark.parametrize("hook", ["process_output_stream", *OUTPUT_HOOKS])
@pytest.mark.parametrize("is_edited", [True, False], ids=["edited", "untouched"])
async def test_words_that_were_changed_are_not_handed_back_with_the_signature_of_others(
    hook: str, is_edited: bool
) -> None:
    """R2.31, R4.15: a provider reads the words that it said out of what it gave with them, or refuses these"""

    def edit(args: Any) -> Any:
        if hook == "process_output_stream":
            return cleaned_in_place(args.part) if args.part.type == "reasoning-delta" and is_edited else args.part
        for message in args.messages if is_edited else ():
            for part in message.content.parts:
                if part.type == "reasoning":
                    part.reasoning = clean(part.reasoning)
        return None

    watch = Watch(
        [[*signed_reasoning(f"think {SECRET}"), *signed_reasoning("well"), "fine"], "ok"],
        output_processors=[made_sync(**{hook: edit})],
    )
    await watch.run()
    await watch.run("and now?")
    sent = [part for part in watch.model.prompts[1][1]["content"] if part["type"] == "reasoning"]
    assert [part["text"] for part in sent] == ["think X" if is_edited else f"think {SECRET}", "well"]
    assert ["of the words" in as_text(part) for part in sent] == [not is_edited, True]
    assert ["the words" in as_text(part) for part in sent] == [not is_edited, True]


CONTENT: dict[str, list[Any]] = {
    "text": [f"say {SECRET}"],
    "reasoning": [*reasoning(f"think {SECRET}"), "fine"],
    "source": [{"type": "source", "payload": {"id": "s", "sourceType": "url", "url": "https://x/", "title": SECRET}}],
    "file": [{"type": "file", "payload": {"data": "QUJD", "mimeType": "image/png", "filename": SECRET}}],
    "call": [tool_call("t", {"q": SECRET})],
}
"""What a reply may hold, with the secret in it."""


def cleaned(part: Chunk) -> dict[str, Any]:
    """A clean chunk in place of this one."""
    return clean(chunk_to_dict(part))  # type: ignore[no-any-return]


def cleaned_in_place(part: Any) -> Chunk:
    """The chunk itself, with clean values in its payload."""
    for name in ("text", "title", "filename", "args", "result"):
        if getattr(part.payload, name, None) is not None:
            setattr(part.payload, name, clean(getattr(part.payload, name)))
    return part  # type: ignore[no-any-return]


STREAM_EDITS = {"another chunk": cleaned, "in place": cleaned_in_place, "a list": lambda part: [cleaned(part)]}


def keeper(kept: list[Any]) -> Processor:
    """A processor that keeps what a response cache keeps."""
    return made_sync("keeper", process_llm_response=lambda args: kept.extend([*args.chunks, args.raw_response]))


@pytest.mark.parametrize("way", [*STREAM_EDITS, "drop"])
@pytest.mark.parametrize("content", CONTENT)
async def test_a_provider_does_not_quote_what_a_stream_hook_took_out(content: str, way: str) -> None:
    """R2.25, R2.27, R5.9, R11.4, R12.24: nor is it quoted to the client, to a cache or to whoever reads the result"""
    kept: list[Any] = []

    def edit(args: Any) -> Any:
        part = args.part
        if part.type in ("finish", "step-finish") or SECRET not in as_text(chunk_to_dict(part)):
            return part
        return None if way == "drop" else STREAM_EDITS[way](part)

    watch = Watch(
        [[*CONTENT[content], ending()], ["ok", ending()]],
        tools=[tool_of("r")],
        input_processors=[keeper(kept)],
        output_processors=[made_sync(process_output_stream=edit)],
    )
    outcome = await watch.run(max_steps=1)
    assert outcome.finish_reason == "stop"
    assert outcome.usage.total_tokens == 3
    assert SECRET not in as_text(kept)
    assert await watch.places() == []


@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
@pytest.mark.parametrize("way", ["in place", "copies", "without parts"])
async def test_a_provider_does_not_quote_what_an_output_hook_took_out(hook: str, way: str) -> None:
    """R2.31, R2.35, R12.24"""

    def edit(args: Any) -> Any:
        if way == "copies":
            return [clean(message.to_dict()) for message in args.messages]
        (clean_texts if way == "in place" else without("text"))(args)
        return None

    watch = Watch([[f"say {SECRET}", ending()]], output_processors=[made_sync(**{hook: edit})])
    outcome = await watch.run()
    assert outcome.provider_metadata is None
    assert SECRET not in repr([outcome.steps, watch.told["on_finish"]])


async def test_a_provider_does_not_quote_the_result_of_its_tool_that_was_replaced() -> None:
    """R10.7, R10.12, R12.24"""
    kept: list[Any] = []
    watch = Watch(
        [[provider_call(args={}), provider_outcome("tool-result", args={}, result=SECRET), "ok", ending()]],
        input_processors=[keeper(kept)],
        output_processors=[made_sync(process_tool_result=clean_result, process_output_stream=lambda args: args.part)],
    )
    await watch.run()
    assert SECRET not in as_text(kept)
    assert await watch.places() == []


@pytest.mark.parametrize("returned", ["a clean copy", "in place"])
@pytest.mark.parametrize("kind", ["finish", "step-finish"])
async def test_what_a_stream_hook_makes_of_the_end_is_what_the_step_tells(kind: str, returned: str) -> None:
    """R2.25, R12.24: the metadata of the step is that of the chunk which the hooks passed"""

    def edit(args: Any) -> Any:
        part = args.part
        if part.type != kind:
            return part
        if returned == "a clean copy":
            return cleaned(part)
        payload = part.payload
        where = payload.provider_metadata if kind == "finish" else payload.metadata["providerMetadata"]
        where["p"]["quote"] = "X"
        return part

    watch = Watch([["fine", ending()]], output_processors=[made_sync(process_output_stream=edit)])
    outcome = await watch.run()
    assert outcome.provider_metadata == {"p": {"quote": "X"}}
    assert await watch.places() == []


@pytest.mark.parametrize("way", ["as it is", "held back", "in pieces"])
async def test_what_a_provider_tells_about_a_reply_that_nobody_changed_is_kept(way: str) -> None:
    """R12.24"""
    held: list[Chunk] = []

    def hold(args: Any) -> Any:
        part = args.part
        if way == "as it is" or part.type in ("step-start", "step-finish"):
            return part
        if part.type != "text-delta":
            out, held[:] = [*held, part], []
            return out
        if way == "held back":
            held.append(part)
            return None
        return [TextDelta(payload=TextDeltaPayload(id=part.payload.id, text=letter)) for letter in part.payload.text]

    edit = made_sync(process_output_stream=hold, process_output_step=lambda args: args.messages)
    watch = Watch([[*reasoning("think"), "one ", "two", tool_call("t", {"q": 1}), ending()]], output_processors=[edit])
    outcome = await watch.run(max_steps=1)
    assert outcome.text == "one two"
    assert outcome.provider_metadata == {"p": {"quote": SECRET}}


async def test_text_that_is_released_at_the_end_is_told_to_the_caller() -> None:
    """R12.26, R19.2: what is held back is neither lost nor told too early"""

    class Holds(Processor):
        id = "holds"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type != "text-delta":
                return args.part
            args.part.payload.text = clean(args.part.payload.text)
            args.state.setdefault("held", []).append(args.part)
            return None

        def flush_output_stream(self, args: Any, reason: str) -> Any:
            return args.state["held"]

    watch = Watch([["say ", SECRET]], output_processors=[Holds()])
    await watch.run()
    assert await watch.places() == []
    assert [chunk.payload.text for chunk in watch.told["on_chunk"]] == ["say ", "X"]


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("hook", ["process_llm_response", "process_output_step", "process_output_stream"])
async def test_of_a_blocked_attempt_nothing_is_told_but_its_usage(hook: str, retry: bool) -> None:
    """R6.6, R6.7, R12.26: whatever it said is what it may have been blocked for"""

    def judge(args: Any) -> Any:
        if hook != "process_output_stream":
            args.abort("bad", retry=retry and args.retry_count == 0)
        if args.part.type == "finish" and args.retry_count < 2:
            args.abort("bad", retry=retry and args.retry_count == 0)
        return args.part

    source = {"type": "source", "payload": {"id": "s", "sourceType": "url", "url": f"https://x/{SECRET}"}}
    start = {"type": "stream-start", "payload": {"warnings": [SECRET], "request": {"body": SECRET}}}
    facts = {"type": "response-metadata", "payload": {"id": "r", "headers": {"x": SECRET}}}
    said = [start, facts, *reasoning(f"think {SECRET}"), source, f"say {SECRET}", *call_of_a_provider(), ending()]
    array = "input_processors" if hook == "process_llm_response" else "output_processors"
    watch = Watch([said, said], max_processor_retries=1, **{array: [made_sync(**{hook: judge})]})
    outcome = await watch.run()
    assert outcome.tripwire is not None
    assert len(outcome.steps) == (2 if retry else 1)
    assert outcome.steps[0].usage == Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    assert SECRET not in repr([outcome.steps, watch.told["on_step_finish"], watch.told["on_finish"]])


@pytest.mark.parametrize("hook", ["process_output_step", "process_tool_result"])
async def test_of_the_calls_of_a_blocked_attempt_nothing_is_told(hook: str) -> None:
    """R6.6, R6.7"""
    guard = made_sync(**{hook: lambda args: args.abort("bad")})
    watch = Watch([[tool_call("t", {"q": SECRET})]], tools=[tool_of(SECRET)], output_processors=[guard])
    outcome = await watch.run()
    assert outcome.tripwire is not None
    assert SECRET not in repr([outcome.steps, watch.told["on_step_finish"], watch.told["on_finish"]])


async def test_a_tool_result_that_a_stream_hook_blocked_is_listed_nowhere() -> None:
    """R6.6, R6.7"""

    def judge(args: Any) -> Any:
        if args.part.type == "tool-result":
            args.abort("bad")
        return args.part

    watch = Watch(
        [[tool_call("t")]], tools=[tool_of(SECRET)], output_processors=[made_sync(process_output_stream=judge)]
    )
    outcome = await watch.run()
    assert outcome.tripwire is not None
    assert await watch.places() == []


async def test_a_rejected_attempt_is_taken_out_of_a_message_whose_parts_were_edited() -> None:
    """R7.9"""

    def judge(args: Any) -> None:
        if args.step_number == 1:
            without("tool-invocation", "step-start")(args)
            if SECRET in args.text:
                args.abort("bad", retry=True)

    watch = Watch(
        [["one", tool_call("t")], f"say {SECRET}", "ok"],
        tools=[tool_of("r")],
        output_processors=[made_sync(process_output_step=judge)],
        max_processor_retries=1,
    )
    outcome = await watch.run()
    assert SECRET not in as_text([watch.model.prompts, await stored(watch.store)])
    assert outcome.text == "oneok"


async def test_the_object_of_a_rejected_attempt_is_not_the_runs() -> None:
    """R12.34"""
    signal = AbortSignal()

    def judge(args: Any) -> Any:
        part = args.part
        if part.type == "step-finish" and args.retry_count == 0 and part.payload.step_result.reason != "retry":
            args.abort("bad", retry=True)
        return part

    watch = Watch(
        [f'{{"n": "{SECRET}"}}', [lambda: signal.abort("stop"), '{"n": "1"}']],
        output_processors=[made_sync(process_output_stream=judge)],
        max_processor_retries=1,
    )
    schema = {"type": "object", "properties": {"n": {"type": "string"}}}
    outcome = await watch.run(structured_output=schema, abort_signal=signal)
    assert outcome.finish_reason == "aborted"
    assert outcome.object is None


async def test_what_a_timer_holds_is_not_released_while_the_run_trips() -> None:
    """R6.9"""
    is_tripped = asyncio.Event()

    class Guard(Processor):
        id = "guard"

        async def on_violation(self, violation: Any) -> None:
            is_tripped.set()
            for _ in range(5):
                await asyncio.sleep(0)

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta" and "bad" in args.part.payload.text:
                args.abort("bad")
            return args.part

    class Timer(Processor):
        id = "timer"

        def process_output_stream(self, args: Any) -> Any:
            if "task" not in args.state:
                args.state["task"] = args.create_task(self._release(args))
            return None if args.part.type == "text-delta" else args.part

        async def _release(self, args: Any) -> None:
            await is_tripped.wait()
            await args.emit(TextDelta(payload=TextDeltaPayload(id="t", text=SECRET)))

    watch = Watch([["a", "bad"]], output_processors=[Guard(), Timer()])
    outcome = await watch.run()
    assert outcome.tripwire is not None
    assert await watch.places() == []


async def test_an_abort_in_a_last_flush_stops_the_saving() -> None:
    """R6.3, R6.5, R19.2"""
    signal = AbortSignal()

    class Guard(Processor):
        id = "guard"

        def process_output_stream(self, args: Any) -> Any:
            return args.part

        def flush_output_stream(self, args: Any, reason: str) -> None:
            args.abort("too late")

    watch = Watch([[f"say {SECRET}", lambda: signal.abort("stop"), "b"]], output_processors=[Guard()])
    outcome = await watch.run(abort_signal=signal)
    assert outcome.tripwire is not None
    assert await stored(watch.store) == []


async def test_a_cancellation_between_two_guards_of_a_result_records_nothing() -> None:
    """R10.15, R12.28"""
    for turn, tools in (
        ([tool_call("t", id="c1")], [tool_of(SECRET)]),
        ([provider_call(args={}), provider_outcome("tool-result", args={}, result=SECRET), "ok"], []),
    ):
        signal = AbortSignal()
        first = made_sync("first", process_tool_result=lambda args, signal=signal: signal.abort("stop"))
        watch = Watch([turn], tools=tools, output_processors=[first, made_sync("g", process_tool_result=clean_result)])
        outcome = await watch.run(abort_signal=signal)
        assert outcome.finish_reason == "aborted"
        assert await watch.places() == []


@pytest.mark.parametrize("moment", ["before the run", "in an earlier hook"])
async def test_a_cancellation_does_not_keep_input_from_its_guards(moment: str) -> None:
    """R12.28: the input is saved, so it is guarded"""
    signal = AbortSignal()
    if moment == "before the run":
        signal.abort("stop")
    first = made_sync("first", process_input=lambda args: signal.abort("stop"))
    watch = Watch(["never"], input_processors=[first, made_sync("guard", process_input=clean_texts)])
    outcome = await watch.run(f"my card is {SECRET}", abort_signal=signal)
    assert outcome.finish_reason == "aborted"
    assert watch.model.calls == 0
    assert [part.text for part in (await stored(watch.store))[0].content.parts] == ["my card is X"]
    assert await watch.places() == []


@pytest.mark.parametrize("hook", ["process_input", "process_output_result"])
async def test_a_cancellation_does_not_cut_a_sequence_of_guards_short(hook: str) -> None:
    """R12.28, R16.4: a sequence is like its processors side by side"""
    signal = AbortSignal()
    first = made_sync("first", **{hook: lambda args: signal.abort("stop")})
    guards = [sequence(first, made_sync("guard", **{hook: clean_texts}))]
    side = "input_processors" if hook == "process_input" else "output_processors"
    watch = Watch([[f"say {SECRET}", lambda: signal.abort("stop"), "!"]], **{side: guards})
    outcome = await watch.run(f"my card is {SECRET}" if hook == "process_input" else "hi", abort_signal=signal)
    assert outcome.finish_reason == "aborted"
    assert SECRET not in as_text([outcome.text, outcome.response.db_messages, await stored(watch.store)])


async def test_input_whose_guard_a_cancellation_made_fail_is_not_kept() -> None:
    """R12.30; the guard has passed nothing"""
    signal = AbortSignal()

    def fail(args: Any) -> None:
        signal.abort("stop")
        raise ConnectionError("the detector was cancelled")

    watch = Watch(["never"], input_processors=[made_sync(process_input=fail)])
    outcome = await watch.run(f"my card is {SECRET}", abort_signal=signal)
    assert outcome.finish_reason == "aborted"
    assert await watch.places() == []


async def test_a_run_does_not_go_on_without_the_guards_that_it_was_started_with() -> None:
    """R12.9, R12.37"""
    guard = made_sync(process_output_stream=lambda args: args.part if SECRET not in as_text(args.part) else None)
    watch = Watch([tool_call("t"), f"say {SECRET}"], tools=[tool_of("r", require_approval=True)])
    outcome = await watch.run(output_processors=[guard])
    with pytest.raises(RunStateError, match="output_processors"):
        await watch.agent.approve_tool_call_generate(outcome.run_id)
    result = await watch.agent.approve_tool_call_generate(outcome.run_id, output_processors=[guard])
    assert result.text == ""


@pytest.mark.parametrize("asks", [True, lambda *call: True], ids=["always", "a function"])
async def test_a_resumed_run_still_asks_for_approval(asks: Any) -> None:
    """R12.35, R12.37"""
    ran: list[Any] = []
    watch = Watch([tool_call("t", {"n": 1}), tool_call("t", {"n": 2}), "ok"], tools=[Tool(id="t", execute=ran.append)])
    outcome = await watch.run(require_tool_approval=asks)
    assert ran == []
    result = await watch.agent.approve_tool_call_generate(outcome.run_id)
    assert ran == [{"n": 1}]
    assert result.finish_reason == "suspended"


async def test_a_resumed_run_forgets_the_system_messages_of_the_step_before() -> None:
    """R2.19"""

    def step(args: Any) -> Any:
        return {"system_messages": [*args.system_messages, f"S{args.step_number}"]}

    watch = Watch(
        [tool_call("t"), "ok"],
        instructions="SYS",
        tools=[tool_of("r", require_approval=True)],
        input_processors=[made_sync(process_input_step=step)],
    )
    outcome = await watch.run()
    await watch.agent.approve_tool_call_generate(outcome.run_id)
    told = [[message["content"] for message in prompt if message["role"] == "system"] for prompt in watch.model.prompts]
    assert told == [["SYS", "S0"], ["SYS", "S1"]]


async def test_a_guards_state_is_what_it_was_when_a_run_goes_on_in_the_same_process() -> None:
    """R8.4"""
    found: list[Any] = []

    def step(args: Any) -> None:
        found.append(args.state.setdefault("seen", {SECRET}))

    watch = Watch(
        [tool_call("t"), "ok"],
        tools=[tool_of("r", require_approval=True)],
        input_processors=[made_sync(process_input_step=step)],
    )
    outcome = await watch.run()
    await watch.agent.approve_tool_call_generate(outcome.run_id)
    assert found == [{SECRET}, {SECRET}]


@pytest.mark.parametrize("way", ["in place", "copied"])
async def test_the_message_of_a_failed_tool_that_a_stream_hook_cleaned_is_told_and_stored_clean(way: str) -> None:
    """R10.13"""

    def refuse(args: Any) -> str:
        raise ValueError(f"the password {SECRET} is wrong")

    def edit(args: Any) -> Any:
        part = args.part
        if part.type != "tool-error":
            return part
        if way == "in place":
            part.payload.error = clean(part.payload.error)
            return part
        return {"type": "tool-error", "payload": {**part.to_dict()["payload"], "error": clean(part.payload.error)}}

    watch = Watch(
        [[tool_call("search", {"q": "x"})], "done"],
        tools=[Tool(id="search", execute=refuse, input_schema={})],
        output_processors=[made_sync(process_output_stream=edit)],
    )
    outcome = await watch.run()
    assert outcome.text == "done"
    assert SECRET not in as_text([watch.model.prompts, outcome.steps, await stored(watch.store)])
    assert "the password X is wrong" in as_text(watch.model.prompts)


async def test_an_error_that_a_stream_hook_cleaned_is_stored_clean() -> None:
    """R13.10, R17.4"""

    def edit(args: Any) -> Any:
        if args.part.type == "error":
            args.part.payload.error = APICallError(clean(str(args.part.payload.error)))
        return args.part

    watch = Watch(
        [APICallError(f"you said {SECRET}", status_code=400)],
        output_processors=[made_sync(process_output_stream=edit)],
    )
    outcome = await watch.run()
    assert SECRET not in as_text([chunk_to_dict(chunk) for chunk in outcome.chunks])
    assert SECRET not in as_text(await stored(watch.store))
    assert (await stored(watch.store))[1].content.parts[0].error["message"] == "you said X"


async def test_the_text_of_a_guards_crash_does_not_reach_the_client() -> None:
    """R17.2, R17.3"""

    def crash(args: Any) -> Any:
        if args.part.type == "text-delta":
            raise ValueError(f"cannot mask {args.part.payload.text!r}")
        return args.part

    watch = Watch([f"say {SECRET}"], output_processors=[made_sync(process_output_stream=crash)])
    outcome = await watch.run(fails=True)
    assert SECRET not in as_text([chunk_to_dict(chunk) for chunk in outcome.chunks])


@pytest.mark.parametrize("way", ["returned", "emitted"])
async def test_a_chunk_that_a_processor_uses_in_every_run_carries_nothing_from_one_to_the_next(way: str) -> None:
    """R1.19, R2.26, R5.1"""
    note = TextDelta(payload=TextDeltaPayload(id="t", text="[removed]"))

    async def replace(args: Any) -> Any:
        if args.part.type != "text-delta":
            return args.part
        if way == "returned":
            return note
        await args.emit(note)
        return None

    def sign(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text += args.request_context.get("user", "")
        return args.part

    guards = [made_sync("replace", process_output_stream=replace), made_sync("sign", process_output_stream=sign)]
    watch = Watch(["a", "b"], output_processors=guards)
    await watch.run(request_context={"user": SECRET})
    outcome = await watch.run()
    assert outcome.text == "[removed]"
    assert {chunk.run_id for chunk in outcome.chunks} == {outcome.run_id}


async def test_settings_that_a_hook_edits_are_not_the_agents() -> None:
    """R2.11, R2.14, R1.19"""

    def edit(args: Any) -> None:
        args.provider_options["p"]["key"] = SECRET
        args.model_settings["headers"]["key"] = SECRET

    defaults = {"provider_options": {"p": {}}, "model_settings": {"headers": {}}}
    watch = Watch(["a"], default_options=defaults, input_processors=[made_sync(process_input_step=edit)])
    await watch.run()
    assert SECRET not in repr(watch.agent.default_options)
    assert SECRET not in repr(watch.model.requests)
