"""Entry of the benchmark pod: ``python -m specdec.pod``. Exit codes as in ``specdec.errors``."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Runs the benchmark; a fault is one message on stderr."""
    from specdec import interrupts
    from specdec.errors import SpecdecError
    from specdec.pod.benchmark import measure
    from specdec.pod.settings import Settings

    # Kubernetes ends a pod with SIGTERM; what was measured until then is kept and uploaded, as after Ctrl-C.
    interrupts.end_as_ctrl_c_does()
    try:
        return measure(Settings.of(os.environ))
    except SpecdecError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.remedy:
            print(f"remedy: {error.remedy}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
