"""``python -m specdec``: the command without its script."""

from specdec.cli import main

main()
