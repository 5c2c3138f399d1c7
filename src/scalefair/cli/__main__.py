"""``python -m scalefair.cli`` is the command ``scalefair``."""

from scalefair.cli import main

main(prog_name="scalefair")
