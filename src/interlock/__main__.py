"""``python -m interlock``: the command ``interlock``."""

from interlock.cli import main

main()
