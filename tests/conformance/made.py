"""Scenarios made by hand, so that every word of the scenarios' language is spoken at least once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

Data = dict[str, Any]

COUNTS = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
TOOL = {"add": {"result": {"sum": 3}}}
STREAM_HOOK = "processOutputStream"

INPUT_HOOKS = ("processInput", "processInputStep", "processLLMRequest", "processLLMResponse")
OUTPUT_HOOKS = (STREAM_HOOK, "processOutputStep", "processToolResult", "processOutputResult")


def says(*deltas: str, reason: str = "stop") -> Data:
    """A model entry with one text block."""
    return entry(*text(*deltas), reason=reason)


def calls(name: str = "add", *, before: tuple[str, ...] = (), call_id: str = "c1", reason: str = "tool-calls") -> Data:
    """A model entry with a tool call, after a text block if there is one."""
    call = {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": '{"a":1}'}
    return entry(*(text(*before) if before else []), call, reason=reason)


def text(*deltas: str) -> list[Data]:
    parts = [{"type": "text-delta", "id": "t", "delta": delta} for delta in deltas]
    return [{"type": "text-start", "id": "t"}, *parts, {"type": "text-end", "id": "t"}]


def entry(*parts: Data, reason: str = "stop") -> Data:
    finish = {"type": "finish", "finishReason": reason, "usage": COUNTS}
    return {"chunks": [{"type": "stream-start", "warnings": []}, *parts, finish]}


def fails(message: str) -> Data:
    return {"error": {"message": message, "statusCode": 400, "isRetryable": False}}


def processor(name: str, hook: str, *ops: Any, when: Data | None = None, **more: Any) -> Data:
    """A processor with one rule in one hook; further hooks are given as names with empty rule lists."""
    rules = [{"do": list(ops)} | ({"when": when} if when else {})] if ops else []
    hooks = {hook: rules} | {other: [] for other in more.pop("also", ())}
    return {"id": name, "hooks": hooks, **more}


def scenario(
    model: list[Data],
    *,
    given: list[Data] | None = None,
    out: list[Data] | None = None,
    errors: list[Data] | None = None,
    method: str = "stream",
    messages: Any = "hi",
    options: Data | None = None,
    agent: Data | None = None,
    **more: Any,
) -> Data:
    """A scenario of one call, without an expectation."""
    arrays = {"input": given, "output": out, "error": errors}
    call: Data = {"method": method, "messages": messages}
    return {
        "id": "made",
        "agent": {"memory": True, **(agent or {})},
        "model": model,
        "processors": {kind: array for kind, array in arrays.items() if array is not None},
        "calls": [call | ({"options": options} if options else {})],
        "expect": {"calls": []},
        "observe": ["messages", "system", "state", "steps", "usage", "result"],
        **more,
    }


def made() -> Iterator[tuple[str, Data]]:
    """All of them, by name."""
    for part in _PARTS:
        for name, data in part().items():
            for method in ("stream", "generate"):
                yield f"{name}, {method}", _with_method(data, method)


def _with_method(data: Data, method: str) -> Data:
    return {**data, "calls": [{**call, "method": method} for call in data["calls"]]}


def op(name: str, **arguments: Any) -> Data:
    return {"op": name, **arguments}


_WATCH = processor("w", "processInput", also=("processInputStep",))


def _messages() -> dict[str, Data]:
    two = [{"role": "user", "text": "one"}, {"role": "user", "text": "two"}]
    edits = {
        "return-only": op("return-only", indexes=[1]),
        "return-only in another order": op("return-only", indexes=[1, 0]),
        "return-appended": op("return-appended", role="user", text="more"),
        "replace-messages": op("replace-messages", messages=[{"role": "user", "text": "new"}]),
        "return-empty-list": op("return-empty-list"),
        "return-messages": op("return-messages"),
        "return-list": op("return-list"),
        "return-nothing": op("return-nothing"),
        "return-null": op("return-null"),
        "uppercase-in-place": op("uppercase-in-place"),
        "return-uppercase": op("return-uppercase", role="user"),
        "return-suffix": op("return-suffix", text="!"),
        "append-message": op("append-message", role="user", text="more", source="input"),
        "append context": op("append-message", role="user", text="more", source="context"),
        "append system": op("append-message", role="system", text="more", source="input"),
        "remove-message": op("remove-message", index=0),
        "add-system": op("add-system", text="more"),
        "return-foreign-list": op("return-foreign-list"),
        "pass": op("pass"),
    }
    found = {}
    for hook in ("processInput", "processInputStep"):
        for name, edit in edits.items():
            found[f"{name} in {hook}"] = scenario(
                [says("ok")], given=[processor("p", hook, edit), _WATCH], messages=two
            )
    for hook, edit in itertools.product(("processOutputStep", "processOutputResult"), _RESPONSE_EDITS):
        found[f"{edit['op']} in {hook}"] = scenario(
            [calls(before=("first ",)), says("second")],
            out=[processor("p", hook, edit), processor("w", "processOutputStep", also=("processOutputResult",))],
            agent={"tools": TOOL, "maxSteps": 3},
            storedMetadata=["seen"],
        )
    found["replace-system"] = scenario(
        [says("ok")], given=[processor("p", "processInput", op("replace-system", system=["a", "b"])), _WATCH]
    )
    found["append-system"] = scenario(
        [says("ok")], given=[processor("p", "processInput", op("append-system", text="also")), _WATCH]
    )
    found["messageTextContains"] = scenario(
        [says("ok")],
        given=[processor("p", "processInput", op("abort", reason="no twos"), when={"messageTextContains": "two"})],
        messages=two,
    )
    found["a repeated message"] = scenario(
        [says("ok")], given=[_WATCH], messages={"role": "user", "repeat": {"text": "long ", "times": 3}}
    )
    found["an assistant message in the input"] = scenario(
        [says("ok")], given=[_WATCH], messages=[*two[:1], {"role": "assistant", "text": "so"}, *two[1:]]
    )
    return found


_RESPONSE_EDITS = [
    op("return-messages"),
    op("return-list"),
    op("return-nothing"),
    op("return-empty-list"),
    op("append-message", role="assistant", text="postscript", source="response"),
    op("set-message-metadata", metadata={"seen": True}),
]


def _step() -> dict[str, Data]:
    results: dict[str, Data] = {
        "model": {"model": "small"},
        "tool choice": {"toolChoice": "required"},
        "named tool": {"toolChoice": {"type": "tool", "toolName": "add"}},
        "active tools": {"activeTools": []},
        "tools": {"tools": ["extra"]},
        "added tools": {"addTools": ["extra"]},
        "settings": {"modelSettings": {"temperature": 0.2, "maxOutputTokens": 9, "topP": 0.5, "seed": 4}},
        "provider options": {"providerOptions": {"acme": {"x": 1}}},
        "system messages": {"systemMessages": ["only"]},
        "appended system": {"appendSystem": "also"},
        "messages": {"messages": [{"role": "user", "text": "other"}]},
        "the same messages": {"sameMessages": True},
        "the same list": {"sameList": True},
        "another list": {"foreignList": True},
        "both": {"sameMessages": True, "sameList": True},
    }
    watch = processor("w", "processInputStep", observe=["model", "settings", "system", "messages"])
    common: Data = {"agent": {"tools": TOOL, "maxSteps": 2}, "extraTools": {"extra": {"result": "x"}}}
    found = {
        f"step-result with {name}": scenario(
            [calls(), says("ok")],
            given=[processor("p", "processInputStep", op("step-result", **result), when={"stepNumber": 0}), watch],
            **common,
        )
        for name, result in results.items()
    }
    found["prepareStep"] = scenario(
        [calls(), says("ok")],
        given=[watch],
        options={"prepareStep": {"model": "small", "appendSystem": ["also"], "modelSettings": {"temperature": 1}}},
        **common,
    )
    return found


def _request() -> dict[str, Data]:
    edits = {
        "replace-prompt-text": op("replace-prompt-text", find="hi", **{"with": "ho"}),
        "append-prompt": op("append-prompt", role="system", text="more"),
        "mutate-prompt-text": op("mutate-prompt-text", find="hi", **{"with": "ho"}),
    }
    found = {
        name: scenario([calls(), says("ok")], given=[processor("p", "processLLMRequest", edit)], agent={"tools": TOOL})
        for name, edit in edits.items()
    }
    cached = [
        {"type": "text-start", "payload": {"id": "c"}},
        {"type": "text-delta", "payload": {"id": "c", "text": "from cache"}},
        {"type": "text-end", "payload": {"id": "c"}},
    ]
    calling = {"type": "tool-call", "payload": {"toolCallId": "c1", "toolName": "add", "args": {"a": 1}}}
    watch = processor("w", STREAM_HOOK, also=("processOutputStep",))
    for name, chunks in {"text": cached, "tool call": [calling]}.items():
        found[f"cached {name}"] = scenario(
            [says("live")],
            given=[
                processor("p", "processLLMRequest", op("cached-response", chunks=chunks), when={"stepNumber": 0}),
                processor("r", "processLLMResponse"),
            ],
            out=[watch],
            agent={"tools": TOOL},
        )
    for name, edit in {"dropped": op("drop-part"), "changed": op("rewrite-part", upper=True)}.items():
        found[f"cached text {name}"] = scenario(
            [says("live")],
            given=[processor("p", "processLLMRequest", op("cached-response", chunks=cached))],
            out=[processor("x", STREAM_HOOK, edit, when={"partType": "text-delta"}), watch],
        )
    cache = {
        "id": "cache",
        "hooks": {
            "processLLMRequest": [{"do": op("replay-saved", key="k")}],
            "processLLMResponse": [{"when": {"fromCache": False}, "do": op("save-response", key="k")}],
        },
    }
    saved = scenario([says("one", "two")], given=[cache], out=[processor("x", STREAM_HOOK)], agent={"memory": False})
    found["a saved reply"] = {**saved, "calls": saved["calls"] * 2}
    return found


def _stream() -> dict[str, Data]:
    edits = {
        "drop-part as null": op("drop-part", **{"as": None}),
        "drop-part as undefined": op("drop-part", **{"as": "undefined"}),
        "rewrite-part with text": op("rewrite-part", text="other"),
        "rewrite-part upper": op("rewrite-part", upper=True),
        "rewrite-part find": op("rewrite-part", find="o", **{"with": "0"}),
        "return-nothing": op("return-nothing"),
    }
    watch = processor("w", STREAM_HOOK, observe=["streamParts"], also=("processOutputStep", "processOutputResult"))
    found = {
        f"{name} in the stream": scenario(
            [says("one ", "two")], out=[processor("p", STREAM_HOOK, edit, when={"textContains": "one"}), watch]
        )
        for name, edit in edits.items()
    }
    for kind in ("step-start", "text-start", "text-end", "finish", "step-finish", "tool-call", "tool-result"):
        found[f"{kind} dropped"] = scenario(
            [calls(before=("first ",)), says("second")],
            given=[processor("r", "processLLMResponse")],
            out=[processor("p", STREAM_HOOK, op("drop-part"), when={"partType": kind}), watch],
            agent={"tools": TOOL},
        )
    found["empty deltas"] = scenario([says("", "x", "")], given=[processor("r", "processLLMResponse")], out=[watch])
    found["other parts"] = scenario(
        [
            entry(
                {"type": "response-metadata", "id": "r1", "modelId": "m"},
                {"type": "reasoning-start", "id": "r"},
                {"type": "reasoning-delta", "id": "r", "delta": "why"},
                {"type": "reasoning-end", "id": "r"},
                {"type": "source", "sourceType": "url", "id": "s", "url": "https://example.org", "title": "S"},
                {"type": "file", "mediaType": "text/plain", "data": "aGk="},
                *text("x"),
            )
        ],
        given=[processor("r", "processLLMResponse")],
        out=[watch],
    )
    found["streamed tool input"] = scenario(
        [
            entry(
                {"type": "tool-input-start", "id": "c1", "toolName": "add"},
                {"type": "tool-input-delta", "id": "c1", "delta": '{"a":1}'},
                {"type": "tool-input-end", "id": "c1"},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "add", "input": '{"a":1}'},
                reason="tool-calls",
            ),
            says("ok"),
        ],
        given=[processor("r", "processLLMResponse")],
        out=[watch],
        agent={"tools": TOOL},
    )
    found["length"] = scenario([calls(reason="length")], out=[watch], agent={"tools": TOOL})
    found["content filter"] = scenario([says("x", reason="content-filter")], out=[watch])
    found["stop with a tool call"] = scenario([calls(reason="stop"), says("ok")], out=[watch], agent={"tools": TOOL})
    found["equal texts"] = scenario(
        [calls(before=("same",)), says("same")], out=[watch], agent={"tools": TOOL, "maxSteps": 3}
    )
    return found


def _data() -> dict[str, Data]:
    reader = processor("r", STREAM_HOOK, op("collect-state", key="seen"), processDataParts=True)
    found = {}
    for hook in (*INPUT_HOOKS, *OUTPUT_HOOKS):
        kind = "input" if hook in INPUT_HOOKS else "output"
        when = {"partType": "text-delta"} if hook == STREAM_HOOK else None
        emitting = processor(
            "p",
            hook,
            op("emit", type="data-kept", data={"n": 1}),
            op("emit", type="data-gone", data=2, transient=True),
            when=when,
        )
        arrays: Data = (
            {"given": [emitting], "out": [reader]} if kind == "input" else {"out": [reader, emitting, reader]}
        )
        found[f"emit in {hook}"] = scenario([calls(), says("ok")], agent={"tools": TOOL}, **arrays)
    emitting_tool = {"add": {"result": 1, "emits": [{"type": "data-a", "data": 1}, {"type": "data-b", "data": 2}]}}
    for name, edit in {"rewrite-data": op("rewrite-data", data="new"), "drop": op("drop-part")}.items():
        opted = processor("p", STREAM_HOOK, edit, when={"partType": "data-a"}, processDataParts=True)
        found[f"{name} of a tool's data"] = scenario(
            [calls(), says("ok")], out=[opted, reader], agent={"tools": emitting_tool}
        )
    for kind in ("step-start", "text-start", "finish", "step-finish"):
        found[f"data written at {kind}"] = scenario(
            [says("ok")],
            out=[processor("p", STREAM_HOOK, op("emit", type="data-note", data=1), when={"partType": kind})],
        )
    found["a bad type in the stream"] = scenario(
        [says("ok")],
        out=[processor("p", STREAM_HOOK, op("emit", type="note", data=1), when={"partType": "text-delta"})],
    )
    found["a bad type in a tool"] = scenario(
        [calls(), says("ok")], agent={"tools": {"add": {"result": 1, "emits": [{"type": "note", "data": 1}]}}}
    )
    return found


def _state() -> dict[str, Data]:
    counting = {
        "id": "n",
        "hooks": {
            "processInputStep": [{"do": op("incr-state", key="n")}],
            "processLLMRequest": [{"when": {"stateEquals": {"n": 1}}, "do": op("set-state", key="at", value=1)}],
            "processLLMResponse": [{"when": {"invocation": 1}, "do": op("set-state", key="again", value=True)}],
        },
    }
    found = {"state": scenario([calls(), says("ok")], given=[counting], agent={"tools": TOOL})}
    found["collect-state"] = scenario(
        [says("a", "b")],
        out=[processor("c", STREAM_HOOK, op("collect-state", key="t"), when={"partType": "text-delta"})],
    )
    found["silent"] = scenario(
        [says("ok")],
        given=[processor("s", "processInput", op("append-message", role="user", text="quiet"), silent=True), _WATCH],
    )
    chosen = {"key": "who", "cases": {"a": [processor("a", "processAPIError", op("retry"))]}, "default": []}
    for who in ("a", "b"):
        found[f"error processors for {who}"] = scenario(
            [fails("bad"), says("ok")], options={"context": {"who": who}}
        ) | {"processors": {"error": {"byContext": chosen}}}
    return found


def _ends() -> dict[str, Data]:
    """An abort in every hook, and an abort in an unnamed one."""
    found = {}
    for kind, hook in _hooks():
        aborting = processor(
            "p", hook, op("abort", reason="stop it", metadata={"k": 1}), when=_late(hook), onViolation={}
        )
        found[f"abort in {hook}"] = _with_tools(kind, aborting, hook)
        found[f"abort without reason in {hook}"] = _with_tools(kind, processor("p", hook, op("abort")), hook)
    found["onViolation that throws"] = scenario(
        [says("ok")],
        out=[processor("p", "processOutputStep", op("abort", reason="no"), onViolation={"throws": "broken"})],
    )
    return found


def _hooks() -> list[tuple[str, str]]:
    return [
        *(("given", hook) for hook in INPUT_HOOKS),
        *(("out", hook) for hook in OUTPUT_HOOKS),
        ("errors", "processAPIError"),
    ]


def _late(hook: str) -> Data | None:
    """A condition that lets the first step pass, where that is possible."""
    if hook == STREAM_HOOK:
        return {"textContains": "second"}
    stepless = ("processInput", "processOutputResult", "processToolResult", "processAPIError")
    return None if hook in stepless else {"stepNumber": 1}


def _with_tools(kind: str, one: Data, hook: str, **agent: Any) -> Data:
    """Two steps with a tool between them; the error hook gets a provider error in the second."""
    second = fails("bad request") if hook == "processAPIError" else says("second ", "text")
    arrays: Data = {
        "given": [processor("i", "processInput", also=INPUT_HOOKS[1:])],
        "out": [processor("o", STREAM_HOOK, also=OUTPUT_HOOKS[1:])],
        "errors": [],
    }
    arrays[kind] = [one, *arrays[kind]]
    if not arrays["errors"]:
        del arrays["errors"]
    more: Data = {"agent": {"tools": TOOL, "maxSteps": 3, **agent}}
    return scenario([calls(before=("first",)), second, says("third"), says("fourth")], **arrays, **more)


def _retries() -> dict[str, Data]:
    """A retry from every hook: granted, exhausted, and without a limit."""
    found = {}
    for kind, hook in _hooks():
        once: Data = {"invocation": 0} if hook not in (STREAM_HOOK,) else {"textContains": "second", "retryCount": 0}
        asking = processor("p", hook, op("abort", reason="again", retry=True), when=once, onViolation={})
        found[f"retry from {hook}"] = _with_tools(kind, asking, hook, maxProcessorRetries=2)
        found[f"retry from {hook} without a limit"] = _with_tools(kind, asking, hook)
        always = processor("p", hook, op("abort", reason="again", retry=True), when=_late(hook), onViolation={})
        found[f"retries from {hook} until the limit"] = _with_tools(kind, always, hook, maxProcessorRetries=1)
    return found


def _late_aborts() -> dict[str, Data]:
    """Retries that a stream hook asks for at the ends of an attempt."""
    found = {}
    for kind in ("step-start", "finish", "step-finish"):
        asking = processor(
            "p", STREAM_HOOK, op("abort", reason="again", retry=True), when={"partType": kind, "retryCount": 0}
        )
        found[f"retry at {kind}"] = scenario([says("no"), says("yes")], out=[asking], agent={"maxProcessorRetries": 2})
    asking = processor("p", STREAM_HOOK, op("abort", reason="again", retry=True), when={"partType": "error"})
    found["retry at error"] = scenario([fails("bad"), says("yes")], out=[asking], agent={"maxProcessorRetries": 2})
    broken = {"chunks": [*text("par"), {"type": "error", "error": "bad stream"}]}
    aborting = processor("p", STREAM_HOOK, op("abort", reason="no"), when={"partType": "step-finish"})
    found["an abort at the end of a broken stream"] = scenario([broken], out=[aborting])
    found["data written at the end of a rejected attempt"] = scenario(
        [says("no"), says("yes")],
        out=[
            processor("p", STREAM_HOOK, op("emit", type="data-note", data=1), when={"partType": "step-finish"}),
            processor("g", "processOutputStep", op("abort", reason="no", retry=True), when={"retryCount": 0}),
        ],
        agent={"maxProcessorRetries": 2},
    )
    found["a step whose text was dropped after one with text"] = scenario(
        [calls(before=("first",)), says("second")],
        out=[
            processor("d", STREAM_HOOK, op("drop-part"), when={"textContains": "second"}),
            processor("w", "processOutputStep"),
        ],
        agent={"tools": TOOL},
    )
    return found


def _removals() -> dict[str, Data]:
    """Rejected attempts of which something was in the message list early."""
    rejecting = op("abort", reason="not so", retry=True)
    first: Data = {"retryCount": 0}
    emitting = op("emit", type="data-note", data=1)
    search = {"toolCallId": "w1", "toolName": "search", "providerExecuted": True}
    searched = [{"type": "tool-call", "input": '{"q":1}', **search}, {"type": "tool-result", "result": "hit", **search}]
    guard = processor("g", "processOutputStep", rejecting, when=first)
    common: Data = {"agent": {"maxProcessorRetries": 1}}
    return {
        "a rejected call of a provider's tool": scenario(
            [entry(*searched, *text("no")), says("yes")], out=[guard], **common
        ),
        "data written before the rejection": scenario(
            [says("no"), says("yes")],
            out=[processor("g", "processOutputStep", emitting, rejecting, when=first)],
            **common,
        ),
        "data written by the request hook of a rejected attempt": scenario(
            [says("no"), says("yes")],
            given=[processor("r", "processLLMRequest", emitting, when=first)],
            out=[guard],
            **common,
        ),
        "data written by the response hook of a rejected attempt": scenario(
            [says("no"), says("yes")],
            given=[processor("r", "processLLMResponse", emitting, when=first)],
            out=[guard],
            **common,
        ),
    }


def _throws() -> dict[str, Data]:
    return {
        f"throw in {hook}": _with_tools(kind, processor("p", hook, op("throw", message="boom"), when=_late(hook)), hook)
        for kind, hook in _hooks()
    }


def _tools() -> dict[str, Data]:
    watch = processor("w", "processToolResult", observe=["toolStep", "messages"], also=("processOutputStep",))
    redact = processor("r", "processToolResult", op("redact-tool-result", result="masked"), when={"toolName": "add"})
    two = entry(
        {"type": "tool-call", "toolCallId": "c1", "toolName": "add", "input": '{"a":1}'},
        {"type": "tool-call", "toolCallId": "c2", "toolName": "sub", "input": "{}"},
        reason="tool-calls",
    )
    search = {"toolCallId": "w1", "toolName": "search", "providerExecuted": True}
    searched = [{"type": "tool-call", "input": '{"q":1}', **search}, {"type": "tool-result", "result": "hit", **search}]
    common: Data = {"out": [redact, watch], "agent": {"tools": {"add": {"results": ["a", "b"]}, "sub": {"result": 2}}}}
    last = says("ok")
    return {
        "redacted results": scenario([calls(), calls(call_id="c2"), calls(call_id="c3"), last], **common),
        "two calls": scenario([two, last], **common),
        "a refused call": scenario(
            [calls(), last],
            out=[processor("g", "processOutputStep", op("abort", reason="no tools"), when={"hasToolCalls": True})],
            agent={"tools": TOOL},
        ),
        "a tool that returns nothing": scenario([calls(), last], out=[watch], agent={"tools": {"add": {}}}),
        "a tool that throws": scenario([calls(), last], out=[watch], agent={"tools": {"add": {"throws": "broken"}}}),
        "an unknown tool": scenario([calls("other"), last], **common),
        "a call without tools": scenario([calls("other"), last], out=[watch]),
        "input that is no JSON": scenario(
            [
                entry({"type": "tool-call", "toolCallId": "c1", "toolName": "add", "input": "{a"}, reason="tool-calls"),
                last,
            ],
            **common,
        ),
        "a call although tools are off": scenario(
            [calls(), last], given=[processor("n", "processInputStep", op("step-result", toolChoice="none"))], **common
        ),
        "a call of an inactive tool": scenario(
            [calls(), last],
            given=[processor("n", "processInputStep", op("step-result", activeTools=["sub"]))],
            **common,
        ),
        "a provider's tool": scenario([entry(*searched, *text("ok"))], out=[watch]),
        "a provider's tool, redacted": scenario(
            [entry(*searched, *text("ok"))],
            out=[processor("r", "processToolResult", op("redact-tool-result", result="masked")), watch],
        ),
        "all calls dropped": scenario(
            [calls(), last],
            out=[processor("d", STREAM_HOOK, op("drop-part"), when={"partType": "tool-call"})],
            agent={"tools": TOOL},
        ),
        "an empty list from the tool result": scenario(
            [calls(), last],
            out=[processor("e", "processToolResult", op("return-empty-list")), watch],
            agent={"tools": TOOL},
        ),
        "the step limit": scenario(
            [calls(), calls(call_id="c2"), last], agent={"tools": TOOL}, options={"maxSteps": 2}
        ),
    }


def _failures() -> dict[str, Data]:
    watch = processor("w", STREAM_HOOK, also=("processOutputStep", "processOutputResult"))
    retry = [processor("e", "processAPIError", op("retry"), when={"errorContains": "bad"})]
    broken = {"chunks": [*text("par"), {"type": "error", "error": "bad stream"}]}
    unfinished = {"chunks": [text("par")[0], text("par")[1], {"type": "error", "error": {"message": "bad stream"}}]}
    return {
        "a failed call": scenario([fails("bad one")], out=[watch]),
        "a failed call, repeated": scenario([fails("bad one"), says("ok")], out=[watch], errors=retry),
        "another error": scenario([fails("worse"), says("ok")], out=[watch], errors=retry),
        "retry with false": scenario(
            [fails("bad one")], errors=[processor("e", "processAPIError", op("retry", value=False)), *retry]
        ),
        "no retries allowed": scenario(
            [fails("bad one"), says("ok")], errors=retry, options={"maxProcessorRetries": 0}
        ),
        "a broken stream": scenario([broken], out=[watch]),
        "a stream broken in a text": scenario([unfinished], out=[watch]),
        "a broken stream, repeated": scenario([broken, says("ok")], out=[watch], errors=retry),
        "failures of two steps": scenario(
            [fails("bad one"), calls(before=("first",)), fails("bad two"), says("ok")],
            given=[processor("i", "processInputStep")],
            out=[watch],
            errors=retry,
            agent={"tools": TOOL},
        ),
        "a failure while a step is repeated": scenario(
            [says("no"), fails("bad one"), says("ok")],
            out=[processor("q", "processOutputStep", op("abort", reason="not so", retry=True), when={"retryCount": 0})],
            errors=retry,
        ),
        "an edit before the retry": scenario(
            [fails("bad one"), says("ok")],
            errors=[processor("e", "processAPIError", op("remove-message", index=0), op("retry"))],
            messages=[{"role": "user", "text": "one"}, {"role": "user", "text": "two"}],
        ),
        "an abort after a failed call": scenario(
            [fails("bad one")], out=[processor("g", "processOutputResult", op("abort", reason="no"))]
        ),
        "an abort at the error chunk": scenario(
            [fails("bad one")],
            out=[processor("g", STREAM_HOOK, op("abort", reason="no"), when={"partType": "error"})],
        ),
        "data written after a failed call": scenario(
            [fails("bad one")],
            out=[processor("g", "processOutputResult", op("emit", type="data-note", data=1))],
        ),
        "no further entry": scenario([calls()], out=[watch], agent={"tools": TOOL}),
    }


def _calls() -> dict[str, Data]:
    two = scenario([says("one"), says("two"), says("three")], given=[_WATCH])
    call = two["calls"][0]
    tripped = processor("p", "processOutputStep", op("abort", reason="no"), when={"invocation": 0})
    return {
        "three calls": {**two, "calls": [call, call, call]},
        "two threads": {**two, "calls": [call, {**call, "options": {"thread": "thread-2"}}, call]},
        "a tripped call before another": {**two, "calls": [call, call], "processors": {"output": [tripped]}},
        "another model": {**two, "agent": {"modelId": "other", "instructions": "Be brief."}},
        "structured output": scenario(
            [says('{"name":"Ann",', '"age":3,"is":true}')],
            options={"structuredOutput": {"name": "string", "age": "number", "is": "boolean"}},
        ),
        "settings of the call": scenario([says("ok")], options={"modelSettings": {"temperature": 0.1, "topK": 3}}),
        "call-level arrays": scenario(
            [fails("bad"), says("ok")],
            options={
                "inputProcessors": [_WATCH],
                "outputProcessors": [processor("o", "processOutputResult")],
                "errorProcessors": [processor("e", "processAPIError", op("retry"))],
            },
        ),
        "context set too late": scenario([says("ok")])
        | {
            "processors": {
                "input": [processor("s", "processInput", op("set-context", key="k", value="late"))],
                "output": {
                    "byContext": {
                        "key": "k",
                        "cases": {"late": [processor("late", "processOutputStep")]},
                        "default": [processor("early", "processOutputStep")],
                    }
                },
            }
        },
        "a processor without hooks": scenario([says("ok")], out=[{"id": "empty", "hooks": {}}]),
    }


_PARTS = (
    _messages,
    _step,
    _request,
    _stream,
    _data,
    _state,
    _ends,
    _retries,
    _late_aborts,
    _removals,
    _throws,
    _tools,
    _failures,
    _calls,
)
