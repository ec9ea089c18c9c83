from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import HEAD, Write, interlock

HELLO = """
agent = Agent(id="greeter", model=ScriptedModel(["Hello there."]))
"""

RETRIED = """
class Longer(Processor):
    id = "longer"

    def process_output_step(self, args):
        if len(args.text) < 10:
            args.abort("Say more.", retry=True)

agent = Agent(
    id="a", model=ScriptedModel(["Short.", "A longer answer."]), output_processors=[Longer()], max_processor_retries=1
)
"""


def test_the_answer_goes_to_standard_output_and_nothing_else(agents: Write) -> None:
    done = interlock("run", f"{agents(HELLO)}:agent", "hi")
    assert (done.exit_code, done.stdout) == (0, "Hello there.\n")


def test_the_report_tells_model_steps_tokens_and_time(agents: Write) -> None:
    done = interlock("run", f"{agents(HELLO)}:agent", "hi")
    lines = done.stderr.splitlines()
    assert lines[0] == "run:"
    assert lines[1].startswith("  scripted, 1 step, 5 tokens in, 3 out, ")


def test_a_dash_reads_the_text_from_standard_input(agents: Write) -> None:
    path = agents('agent = Agent(id="echo", model=ScriptedModel(lambda request: str(request.prompt[-1]["content"])))')
    done = interlock("run", f"{path}:agent", "-", stdin="from a pipe\n")
    assert "from a pipe" in done.stdout


def test_an_empty_text_is_refused(agents: Write) -> None:
    done = interlock("run", f"{agents(HELLO)}:agent", "-", stdin="\n")
    assert (done.exit_code, done.stderr) == (2, "error: the text is empty: say something to the agent\n")


def test_json_writes_every_chunk_in_wire_form_on_a_line_of_its_own(agents: Write) -> None:
    done = interlock("run", f"{agents(HELLO)}:agent", "hi", "--json")
    chunks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [chunk["type"] for chunk in chunks] == [
        "start",
        "step-start",
        "text-start",
        "text-delta",
        "text-end",
        "step-finish",
        "finish",
    ]
    assert chunks[3]["payload"]["text"] == "Hello there."
    assert chunks[3]["from"] == "AGENT"


def test_json_can_hold_values_that_json_has_no_form_for(agents: Write) -> None:
    path = agents("""
class Writes(Processor):
    id = "writes"

    async def process_input_step(self, args):
        await args.writer.custom({"type": "data-x", "data": {"model": args.model.__class__}})

agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[Writes()])
""")
    done = interlock("run", f"{path}:agent", "hi", "--json")
    assert any(json.loads(line)["type"] == "data-x" for line in done.stdout.splitlines())


def test_the_report_has_one_line_a_processor_and_hook_however_many_chunks(agents: Write) -> None:
    path = agents("""
class Shout(Processor):
    id = "shout"

    def process_output_stream(self, args):
        if args.part.type != "text-delta":
            return args.part
        if args.part.payload.text == "b":
            return None
        args.part.payload.text = args.part.payload.text.upper()
        return args.part

agent = Agent(id="a", model=ScriptedModel([["a", "b"] * 200]), output_processors=[Shout()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.stdout == "A" * 200 + "\n"
    assert done.stderr.splitlines()[:2] == [
        "processors:",
        "  shout  process_output_stream  rewrote 200 chunks; held back or dropped 200 chunks",
    ]


def test_a_processor_that_only_looked_is_in_the_report(agents: Write) -> None:
    path = agents("""
class Looks(Processor):
    id = "looks"

    def process_input(self, args):
        pass

agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[Looks()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert "  looks  process_input  ran" in done.stderr.splitlines()


def test_a_chunk_that_comes_back_in_a_list_as_it_was_is_not_rewritten(agents: Write) -> None:
    path = agents("""
class Lists(Processor):
    id = "lists"

    def process_output_stream(self, args):
        return [args.part]

agent = Agent(id="a", model=ScriptedModel(["ok"]), output_processors=[Lists()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert (done.stdout, "lists" in done.stderr) == ("ok\n", False)


def test_a_tool_call_of_a_rejected_attempt_did_not_run(agents: Write) -> None:
    """R7.11"""
    path = agents("""
@tool
def pay(amount: int) -> str:
    return "paid"

class NoCalls(Processor):
    id = "no-calls"

    def process_output_step(self, args):
        if args.tool_calls:
            args.abort("Do not pay.", retry=True)

agent = Agent(
    id="a",
    model=ScriptedModel([[tool_call("pay", {"amount": 5})], "Not paid."]),
    tools=[pay],
    output_processors=[NoCalls()],
    max_processor_retries=1,
)
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.stdout == "Not paid.\n"
    assert '  pay({"amount": 5}) did not run' in done.stderr.splitlines()


def test_tool_calls_and_what_became_of_them_are_in_the_report(agents: Write) -> None:
    path = agents("""
@tool
def add(a: int, b: int) -> int:
    return a + b

@tool
def explode() -> str:
    raise RuntimeError("no fuse")

agent = Agent(
    id="a",
    model=ScriptedModel([[tool_call("add", {"a": 1, "b": 2}), tool_call("explode", {})], "Done."]),
    tools=[add, explode],
)
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[:3] == [
        "tools:",
        '  add({"a": 1, "b": 2}) returned',
        "  explode({}) failed: no fuse",
    ]


def test_a_tripwire_is_exit_status_3_and_its_reason_is_told(agents: Write) -> None:
    path = agents("""
class Blocks(Processor):
    id = "blocks"

    def process_input(self, args):
        args.abort("Not about that.")

agent = Agent(id="a", model=ScriptedModel([]), input_processors=[Blocks()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "  blocks  process_input  tripped: Not about that." in done.stderr.splitlines()
    assert done.stderr.splitlines()[-1] == "blocked by blocks: Not about that."


def test_a_rejected_attempt_is_not_written_where_it_cannot_be_taken_back(agents: Write) -> None:
    """R7.10"""
    done = interlock("run", f"{agents(RETRIED)}:agent", "hi")
    assert (done.exit_code, done.stdout) == (0, "A longer answer.\n")
    assert "  longer  process_output_step  asked for a retry: Say more." in done.stderr.splitlines()
    assert "1 step, 1 retry, 10 tokens in, 6 out" in done.stderr


def test_a_blocked_attempt_that_was_held_back_is_never_written(agents: Write) -> None:
    path = agents(RETRIED.replace("A longer answer.", "No."))
    done = interlock("run", f"{path}:agent", "hi")
    assert (done.exit_code, done.stdout) == (3, "")


def test_the_texts_of_two_steps_stand_on_lines_of_their_own(agents: Write) -> None:
    path = agents("""
@tool
def look() -> str:
    return "ok"

agent = Agent(id="a", model=ScriptedModel([["Let me look.", tool_call("look", {})], "Found it."]), tools=[look])
""")
    assert interlock("run", f"{path}:agent", "hi").stdout == "Let me look.\nFound it.\n"


def test_quiet_leaves_the_report_out(agents: Write) -> None:
    done = interlock("run", f"{agents(HELLO)}:agent", "hi", "-q")
    assert (done.stdout, done.stderr) == ("Hello there.\n", "")


def test_a_failing_processor_is_exit_status_1_and_shows_the_line_that_failed(agents: Write) -> None:
    path = agents("""
class Breaks(Processor):
    id = "breaks"

    def process_output_step(self, args):
        return {}["missing"]

agent = Agent(id="a", model=ScriptedModel(["ok"]), output_processors=[Breaks()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.exit_code == 1
    assert "error: processor 'breaks' failed in process_output_step: KeyError: 'missing'" in done.stderr
    assert 'return {}["missing"]' in done.stderr
    assert "site-packages" not in done.stderr
    assert "src/interlock" not in done.stderr


def test_a_processor_that_fails_before_the_first_step_is_told_the_same_way(agents: Write) -> None:
    path = agents("""
class Breaks(Processor):
    id = "breaks"

    def process_input(self, args):
        raise ValueError("bad luck")

agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[Breaks()])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.exit_code == 1
    assert "  breaks  process_input  failed: bad luck" in done.stderr.splitlines()
    assert 'raise ValueError("bad luck")' in done.stderr


def test_a_model_that_fails_is_exit_status_1_with_the_provider_s_words(agents: Write) -> None:
    path = agents("""
from interlock import APICallError
agent = Agent(id="a", model=ScriptedModel([APICallError("the key is no good", status_code=401)]))
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == "error: the key is no good"


def test_a_run_that_waits_for_approval_says_so(agents: Write) -> None:
    path = agents("""
@tool(require_approval=True)
def pay(amount: int) -> str:
    return "paid"

agent = Agent(id="a", model=ScriptedModel([[tool_call("pay", {"amount": 5})]]), tools=[pay])
""")
    done = interlock("run", f"{path}:agent", "hi")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("suspended: ")


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_cancels_the_run_in_good_order(tmp_path: Path) -> None:
    """R12.28"""
    path = tmp_path / "waits.py"
    path.write_text(
        HEAD
        + """
import asyncio
from interlock.testing import wait_for

class Says(Processor):
    id = "says"

    def flush_output_stream(self, args, reason):
        print("flushed:", reason)

agent = Agent(
    id="a", model=ScriptedModel([["Once upon a time\\n", wait_for(asyncio.Event())]]), output_processors=[Says()]
)
"""
    )
    command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", f"{path}:agent", "hi"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "Once upon a time\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "flushed: cancel\n"
        told = process.stderr.read()
        assert process.wait() == 130
    assert told.splitlines()[-1] == "cancelled"
    assert "Traceback" not in told
