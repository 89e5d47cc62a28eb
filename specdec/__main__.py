"""``python -m specdec``: the command without its script."""

from specdec.entry import main

main()
