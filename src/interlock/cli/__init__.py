"""The command line: ``interlock run`` and ``interlock local``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command ``interlock``."""
    try:
        import typer  # noqa: F401  (only to see whether the extra is there)
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("interlock: the command line needs the extra 'cli': pip install 'interlock[cli]'")

    from interlock.cli.app import app

    app(prog_name="interlock")
