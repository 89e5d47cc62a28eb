import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_experiment_page_says_what_the_types_say() -> None:
    found = subprocess.run([sys.executable, "scripts/write_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
