"""The commands and their options."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import metadata
from typing import Annotated

import typer

from interlock.cli.failures import UsageFailure
from interlock.cli.model_choice import STAND_IN, choose_model
from interlock.cli.run import FAILED, INTERRUPTED, READER_LEFT, USAGE, run_agent, tell
from interlock.cli.target import load_agent

app = typer.Typer(
    help="Run agents with their processors at work.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
local = typer.Typer(help="The embedded model, local/smollm2.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(local, name="local")

_EPILOG = (
    "Exit status: 0 the run ended well, 1 it failed, 2 it could not start as given, "
    "3 a processor blocked it, 130 Ctrl-C, 141 nobody reads the answer any more."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"interlock {metadata.version('interlock')}")
        raise typer.Exit


@app.callback()
def _interlock(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command(epilog=_EPILOG)
def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE:AGENT",
            help="A Python file, and in it an agent or a function that returns one.",
            show_default=False,
        ),
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to the agent; - reads standard input.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER/NAME",
            help="Use this model. Without it: the agent's own, or local/smollm2 if that needs a key that is not set.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write every chunk of the run as a line of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write no report to standard error.")] = False,
) -> None:
    """Run an agent.

    Its answer goes to standard output, and what its processors did to standard error.
    """
    try:
        message = _read_input() if text == "-" else text
        if not message.strip():
            raise UsageFailure("the text is empty: say something to the agent")
        agent = load_agent(target)
        chosen = choose_model(agent, model, tell)
        status = asyncio.run(run_agent(agent, message, model=chosen, as_json=as_json, is_quiet=quiet))
    except UsageFailure as failure:
        tell(f"error: {failure}")
        raise typer.Exit(USAGE) from failure
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt
    except BrokenPipeError as broken:
        # What is still buffered has no reader either: the flush at exit must not fail on it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(READER_LEFT) from broken
    raise typer.Exit(status)


def _read_input() -> str:
    if sys.stdin is None:
        raise UsageFailure("standard input is closed: give the text as an argument, or something to read")
    return sys.stdin.read()


@local.command()
def install() -> None:
    """Fetch its weights (94 MB) and check them."""
    from interlock import ConfigurationError
    from interlock.models import install_local_model, resolve_model

    try:
        resolve_model(STAND_IN)
    except ConfigurationError:
        tell(f"fetching the weights of {STAND_IN} (94 MB) ...")
    try:
        path = install_local_model()
        resolve_model(STAND_IN)
    except ConfigurationError as error:
        tell(f"error: {error}")
        raise typer.Exit(FAILED) from error
    typer.echo(f"{STAND_IN} is ready, its SHA-256 is the expected one: {path}")
