"""The machine that measures, as a run's manifest tells of it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from specdec import __version__
from specdec.benchmark.http1 import QUICK_ACKNOWLEDGEMENTS


def this_machine() -> dict[str, Any]:
    """Versions, system, processors and how busy they are now."""
    model = ""
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
        model = match[1] if match else ""
    except OSError:
        pass
    return {
        "specdec": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "quick_acknowledgements": QUICK_ACKNOWLEDGEMENTS,
        "cpu": model or None,
        "cpus": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }
