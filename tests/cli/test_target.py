from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import HEAD, Write, interlock

TWO = """
sales = Agent(id="sales", model=ScriptedModel(["from sales"]))

def make_support() -> Agent:
    return Agent(id="support", model=ScriptedModel(["from support"]))

def needs(name):
    return sales

def wrong():
    return "an agent"

async def later() -> Agent:
    return sales

def broken():
    raise RuntimeError("not today")
"""


def error_of(*arguments: str) -> str:
    """What the command says when it cannot start."""
    done = interlock("run", *arguments, "hi")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    return done.stderr.removeprefix("error: ").rstrip("\n")


def test_an_agent_is_found_by_its_name(agents: Write) -> None:
    assert interlock("run", f"{agents(TWO)}:sales", "hi").stdout == "from sales\n"


def test_a_function_that_returns_an_agent_is_called(agents: Write) -> None:
    assert interlock("run", f"{agents(TWO)}:make_support", "hi").stdout == "from support\n"


def test_the_only_agent_of_a_file_needs_no_name(agents: Write) -> None:
    assert interlock("run", agents(TWO), "hi").stdout == "from sales\n"


def test_a_file_without_that_agent_says_which_it_has(agents: Write) -> None:
    path = agents(TWO)
    assert error_of(f"{path}:sale") == f"{path} has no agent 'sale'. Did you mean 'sales'? The file has: sales"


def test_functions_count_where_there_is_no_agent(agents: Write) -> None:
    path = agents("def build() -> Agent: ...")
    assert error_of(f"{path}:support") == f"{path} has no agent 'support'. The file has: build"


def test_a_file_without_any_agent_says_so(agents: Write) -> None:
    path = agents("x = 1")
    assert error_of(f"{path}:support") == f"{path} has no agent 'support'. The file has no agent."


def test_several_agents_and_no_name_ask_for_one(agents: Write) -> None:
    path = agents(TWO + 'other = Agent(id="other", model=ScriptedModel([]))')
    assert error_of(path) == f"which agent of {path}? The file has: sales, other"


def test_something_else_of_that_name_is_named(agents: Write) -> None:
    path = agents(TWO + "limit = 5")
    assert error_of(f"{path}:limit") == f"'limit' in {path} is no agent but of type int. The file has: sales"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("needs", "needs() in {} cannot be called without arguments: missing a required argument: 'name'"),
        ("wrong", "wrong() in {} returned str, not an agent"),
        ("later", "later() in {} is async: make it a plain function that returns an agent"),
    ],
)
def test_a_function_that_makes_no_agent_says_why(agents: Write, name: str, message: str) -> None:
    path = agents(TWO)
    assert error_of(f"{path}:{name}") == message.format(path)


def test_a_function_that_fails_shows_its_own_lines(agents: Write) -> None:
    path = agents(TWO)
    lines = error_of(f"{path}:broken").splitlines()
    assert lines[0] == f"broken() in {path} failed"
    assert 'raise RuntimeError("not today")' in lines[2]
    assert lines[-1] == "RuntimeError: not today"


@pytest.mark.parametrize("target", ["nowhere.py:agent", "nowhere.py", "nowhere:agent"])
def test_a_missing_file_is_named(target: str) -> None:
    file = target.removesuffix(":agent")
    assert error_of(target) == f"no such file: {file}; write FILE:AGENT, such as agents.py:support"


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    path.touch()
    assert error_of(f"{path}:agent") == f"{path} is no Python file"


def test_an_import_error_shows_the_file_s_own_line(agents: Write) -> None:
    path = agents("import nowhere_to_be_found")
    lines = error_of(f"{path}:agent").splitlines()
    assert lines == [
        "agents.py could not be imported",
        f'  File "{path}", line 4, in <module>',
        "    import nowhere_to_be_found",
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    ]


def test_a_syntax_error_shows_its_place(agents: Write) -> None:
    path = agents("agent = = 1")
    message = error_of(f"{path}:agent")
    assert f'File "{path}", line 4' in message
    assert message.splitlines()[-1] == "SyntaxError: invalid syntax"


def test_an_agent_that_cannot_work_shows_where_it_is_made(agents: Write) -> None:
    path = agents('agent = Agent(id="a", model=None)')
    message = error_of(f"{path}:agent")
    assert "line 4, in <module>" in message
    assert "agent 'a' has no model" in message
    assert "src/interlock" not in message


def test_a_file_that_runs_as_a_script_is_told_how_to_be_imported(agents: Write) -> None:
    assert "if __name__ == '__main__'" in error_of(f"{agents('raise SystemExit(4)')}:agent")


def test_a_file_in_a_package_may_import_from_it(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "texts.py").write_text('ANSWER = "from a neighbour"')
    (package / "agents.py").write_text(
        HEAD + "from .texts import ANSWER\nagent = Agent(id='a', model=ScriptedModel([ANSWER]))"
    )
    assert interlock("run", f"{package / 'agents.py'}:agent", "hi").stdout == "from a neighbour\n"


def test_a_file_may_have_the_name_of_a_loaded_module(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(HEAD + "agent = Agent(id='a', model=ScriptedModel(['ok']))")
    assert interlock("run", f"{path}:agent", "hi").stdout == "ok\n"
