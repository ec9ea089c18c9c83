"""Stored runs in files (R12.37): claimed once by however many processes, whole after every crash."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock import Agent, Processor, tool
from interlock.agent import FileRunStore, InMemoryRunStore, RunStore
from interlock.errors import ConfigurationError, RunNotFoundError, RunStateError, StorageError
from interlock.testing import ScriptedModel, tool_call
from tests.agent.racing_runs import calls, cashier, paid

pytestmark = pytest.mark.anyio


class Process:
    """A process that does its deed when it is told to."""

    def __init__(self, deed: str, directory: Path) -> None:
        command = [sys.executable, "-m", "tests.agent.racing_runs", deed, str(directory)]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == "ready\n"

    def start(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write("go\n")
        self._popen.stdin.flush()

    def end(self) -> tuple[int, Any]:
        told, _ = self._popen.communicate(timeout=60)
        return self._popen.returncode, json.loads(told) if told else None


async def suspended(directory: Path, run_id: str = "run", *names: str) -> Agent:
    """An agent that has suspended a run which waits for the approval of these calls."""
    agent = cashier(directory, calls(run_id, *(names or ("c1",))), "done")
    await agent.generate("hi", run_id=run_id)
    return agent


def test_a_call_is_carried_out_once_whoever_approves_it(tmp_path: Path) -> None:
    """R12.37"""
    ids = [f"run-{n}" for n in range(30)]

    async def suspend_all() -> None:
        for run_id in ids:
            await suspended(tmp_path, run_id, "c1", "c2", "c3")

    asyncio.run(suspend_all())
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    processes = [Process(deed, tmp_path) for deed in ("approve-forward", "approve-backward")]
    for process in processes:
        process.start()
    ends = [process.end() for process in processes]
    assert [status for status, _ in ends] == [0, 0]
    outcomes = [outcome for _, told in ends for outcome in told]
    assert paid(tmp_path) == sorted(f"{run_id}:{name}" for run_id in ids for name in ("c1", "c2", "c3"))
    assert sorted(outcome[:2] for outcome in outcomes) == [
        [run_id, name] for run_id in sorted(ids) for name in ("c1", "c2", "c3")
    ]
    assert [outcome[2] for outcome in outcomes].count("success") == len(ids)
    assert {path.suffix for path in (tmp_path / "runs").iterdir()} == {".done"}


async def test_a_process_that_dies_while_it_writes_leaves_the_old_state(tmp_path: Path) -> None:
    """R12.37"""
    agent = await suspended(tmp_path)
    before = await agent.run_store.load("run")
    process = Process("die-writing", tmp_path)
    process.start()
    status, _ = process.end()
    assert status < 0
    assert [path.stat().st_size for path in (tmp_path / "runs").glob("*.tmp")] == [1_000]
    assert await agent.run_store.load("run") == before
    result = await agent.approve_tool_call_generate("run")
    assert (result.text, paid(tmp_path)) == ("done", ["run:c1"])


async def test_a_run_whose_process_died_at_work_is_not_taken_for_free_but_can_be_given_back(tmp_path: Path) -> None:
    """R12.37"""
    agent = await suspended(tmp_path)
    process = Process("die-at-work", tmp_path)
    process.start()
    status, _ = process.end()
    assert status == 9
    with pytest.raises(RunStateError, match=r"resumed already and has not ended.*release\(\) gives it back"):
        await agent.approve_tool_call_generate("run")
    assert isinstance(agent.run_store, FileRunStore)
    await agent.run_store.release("run")
    await agent.run_store.release("run")
    assert (await agent.approve_tool_call_generate("run")).text == "done"
    assert paid(tmp_path) == ["run:c1"]
    with pytest.raises(RunStateError, match=r"was resumed already$"):
        await agent.run_store.release("run")
    with pytest.raises(RunNotFoundError):
        await agent.run_store.release("another")


async def test_a_run_that_failed_after_it_was_resumed_can_be_given_back(tmp_path: Path) -> None:
    """R12.37, R17.2"""
    agent = await suspended(tmp_path)
    broken = cashier(tmp_path, RuntimeError("the provider is down"))
    with pytest.raises(RuntimeError):
        await broken.approve_tool_call_generate("run")
    with pytest.raises(RunStateError, match="it failed"):
        await agent.approve_tool_call_generate("run")
    assert isinstance(agent.run_store, FileRunStore)
    await agent.run_store.release("run")
    assert (await agent.decline_tool_call_generate("run")).text == "done"


async def test_a_run_that_has_ended_leaves_nothing_but_that_it_was(tmp_path: Path) -> None:
    """R12.37"""
    agent = await suspended(tmp_path)
    await agent.approve_tool_call_generate("run")
    (left,) = (tmp_path / "runs").iterdir()
    assert (left.suffix, left.stat().st_size) == (".done", 0)
    with pytest.raises(RunStateError, match=r"run 'run' was resumed already$"):
        await agent.approve_tool_call_generate("run")


@pytest.mark.parametrize("end", ["tripwire", "canceled"])
async def test_a_run_that_is_stopped_after_it_was_resumed_has_ended(end: str, tmp_path: Path) -> None:
    """R12.37"""

    class Ends(Processor):
        id = "ends"

        def process_input_step(self, args: Any) -> None:
            if end == "tripwire":
                args.abort("no more")
            args.abort_signal.abort()

    await suspended(tmp_path)
    other = Agent(
        id="cashier",
        model=ScriptedModel(["done"]),
        tools=cashier(tmp_path).tools,
        input_processors=[Ends()],
        run_store=FileRunStore(tmp_path / "runs"),
    )
    assert (await other.approve_tool_call_generate("run")).status == end
    assert {path.suffix for path in (tmp_path / "runs").iterdir()} == {".done"}


async def test_a_run_id_may_be_used_again(tmp_path: Path) -> None:
    """R12.37"""
    for _ in range(2):
        agent = await suspended(tmp_path)
        assert (await agent.approve_tool_call_generate("run")).text == "done"
    assert paid(tmp_path) == ["run:c1", "run:c1"]


STRANGE_IDS = [
    "../../etc/passwd",
    "a/b\\c",
    "",
    ".",
    "..",
    "CON",
    "Ä",
    "A",
    "a",
    "a" * 5_000,
    "\ud800",
    "x\0y",
    "a.json",
    "*",
]


async def test_any_run_id_has_a_file_of_its_own_in_the_directory(tmp_path: Path) -> None:
    """R12.37"""
    store = FileRunStore(tmp_path / "runs")
    for number, run_id in enumerate(STRANGE_IDS):
        await store.save(run_id, {"number": number})
    for number, run_id in enumerate(STRANGE_IDS):
        assert await store.load(run_id) == {"number": number}
        assert await store.take(run_id) == {"number": number}
        await store.finish(run_id)
    assert len(list((tmp_path / "runs").iterdir())) == len(STRANGE_IDS)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
async def test_only_the_owner_can_read_a_stored_run(tmp_path: Path) -> None:
    """R12.37"""
    await suspended(tmp_path)
    runs = tmp_path / "runs"
    (file,) = runs.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (runs, file)] == [0o700, 0o600]


@pytest.mark.parametrize("content", [b"", b'{"version": 1', b"\xff\x00", b"[]", b"null", b"[" * 100_000])
async def test_a_damaged_file_is_named_and_left_alone(content: bytes, tmp_path: Path) -> None:
    """R12.37"""
    agent = await suspended(tmp_path)
    (file,) = (tmp_path / "runs").iterdir()
    file.write_bytes(content)
    for go_on in (agent.approve_tool_call_generate, agent.continue_generate, agent.run_store.take):
        with pytest.raises(RunStateError, match=f"the file .*{file.name} is damaged"):
            await go_on("run")
    assert file.read_bytes() == content
    assert paid(tmp_path) == []


async def test_a_file_that_holds_another_run_is_refused(tmp_path: Path) -> None:
    """R12.37"""
    agent = await suspended(tmp_path)
    await agent.run_store.save("other", await agent.run_store.load("run"))
    with pytest.raises(RunStateError, match=r"'other'.*holds run 'run'"):
        await agent.approve_tool_call_generate("other")


def test_a_store_needs_a_directory(tmp_path: Path) -> None:
    """R12.37"""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="FileRunStore needs a directory"):
        FileRunStore(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="FileRunStore needs a directory"):
        FileRunStore(tmp_path / "file" / "below")


async def test_a_store_that_cannot_write_fails_the_run_and_keeps_nothing(tmp_path: Path) -> None:
    """R12.36, R17.2"""
    agent = cashier(tmp_path, calls("run", "c1"))
    (tmp_path / "runs").rmdir()
    errors: list[Any] = []
    with pytest.raises(StorageError, match="run 'run' cannot be stored"):
        await agent.generate("hi", run_id="run", on_error=lambda told: errors.append(type(told["error"])))
    assert errors == [StorageError]
    with pytest.raises(RunNotFoundError):
        await agent.approve_tool_call_generate("run")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RunStore:
    """Each store, for what all stores promise."""
    return InMemoryRunStore() if request.param == "memory" else FileRunStore(tmp_path)


async def test_a_store_gives_a_run_once_and_keeps_nothing_that_the_caller_can_change(store: RunStore) -> None:
    """R12.37"""
    state = {"list": [1, 2**70, "\ud83d", "ü", 0.1], "none": None}
    kept = {**state, "list": list(state["list"])}
    with pytest.raises(RunNotFoundError, match="no suspended run has the id 'r'"):
        await store.load("r")
    with pytest.raises(RunNotFoundError, match="no suspended run has the id 'r'"):
        await store.take("r")
    await store.save("r", state)
    state["list"].clear()
    assert await store.load("r") == kept
    taken = await asyncio.gather(*(store.take("r") for _ in range(5)), return_exceptions=True)
    assert [type(one).__name__ for one in taken] == ["dict", *["RunStateError"] * 4]
    assert taken[0] == kept
    with pytest.raises(RunStateError, match="was resumed already"):
        await store.load("r")
    await store.save("r", {"n": 2})
    assert await store.take("r") == {"n": 2}
    await store.finish("r")
    with pytest.raises(RunStateError, match="was resumed already"):
        await store.take("r")


@pytest.mark.parametrize("what", [object(), {1, object()}, {(1, 2): 3}])
async def test_a_store_refuses_what_is_no_json_and_keeps_what_it_had(what: Any, store: RunStore) -> None:
    """R12.37"""
    await store.save("r", {"n": 1})
    with pytest.raises(RunStateError, match="the run cannot be stored"):
        await store.save("r", {"what": what})
    assert await store.load("r") == {"n": 1}


async def test_nothing_that_a_guard_took_out_and_no_key_is_in_the_file(tmp_path: Path) -> None:
    """R10.7, R12.37"""

    class Masks(Processor):
        id = "masks"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta":
                args.part.payload.text = args.part.payload.text.replace("SECRET", "***")
            return args.part

        def process_tool_result(self, args: Any) -> None:
            part = args.message_list.find_tool_invocation(args.tool_call_id)
            part.tool_invocation.state, part.tool_invocation.result = "result", "***"

        def process_output_step(self, args: Any) -> None:
            if args.retry_count == 0:
                args.abort("once more", retry=True)

    @tool
    async def look() -> str:
        """Look."""
        return "SECRET"

    @tool(require_approval=True)
    async def pay() -> None:
        """Pay."""

    headers = {"set-cookie": "SECRET"}
    told = {"type": "response-metadata", "payload": {"id": "m1", "headers": headers}}
    turns = [[told, "the SECRET ", tool_call("look", {}, id="c1")]] * 2
    agent = Agent(
        id="a",
        model=ScriptedModel([*turns, ["SECRET", tool_call("look", {}, id="c2"), tool_call("pay", {}, id="c3")]]),
        tools=[look, pay],
        output_processors=[Masks()],
        max_processor_retries=1,
        run_store=FileRunStore(tmp_path),
    )
    result = await agent.generate("hi", model_settings={"headers": {"authorization": "Bearer SECRET"}})
    assert result.status == "suspended"
    (file,) = tmp_path.iterdir()
    assert b"***" in file.read_bytes()
    assert b"SECRET" not in file.read_bytes()
