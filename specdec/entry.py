"""Where the ``specdec`` script begins: Ctrl-C ends it in peace even before there is a command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the ``specdec`` script."""
    try:
        from specdec.cli import main as command_line
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        sys.exit(130)
    command_line()
