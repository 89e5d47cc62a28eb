"""CDK app: one stack per region of the experiment. ``cdk -c experiment=<file>`` chooses another experiment
file.
"""

from __future__ import annotations

import gc
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent


def main() -> int:
    """Synthesizes into the folder that the CDK command asks for, or into ``cdk.out``."""
    import aws_cdk as cdk

    from specdec.errors import SpecdecError
    from specdec.experiment.reading import load
    from specdec.experiment.stack_checks import past_mistakes
    from stacks.app import add_stacks, new_app

    app = new_app(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    path = Path(str(app.node.try_get_context("experiment") or ROOT / "experiment.toml"))
    try:
        experiment = load(path)
    except SpecdecError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    for stack in add_stacks(app, experiment, base=path.parent):
        # An annotation keeps from deploying and lets destroy go on.
        for mistake in past_mistakes(experiment.guards, datetime.now(UTC)):
            cdk.Annotations.of(stack).add_error(str(mistake))
    app.synth()
    return 0


if __name__ == "__main__":
    # The CDK's stubs are objects by the hundred thousand that live until the end. To search them for garbage
    # while they are made, and once more at the exit unless they are frozen, would take a quarter of the time.
    gc.disable()
    code = main()
    gc.freeze()
    sys.exit(code)
