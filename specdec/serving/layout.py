"""Where things lie in the results bucket, and which objects mark them as complete.

A reader never infers completeness from what it can list: it looks for the marker, which is written last.
"""

from __future__ import annotations

MODELS = "models/"
ARTIFACTS = "artifacts/"

MODEL_MARKER = ".complete.json"
"""In a model's folder: {"model", "revision", "commit", "files": [{"path", "size", "digest"}]}."""

ARTIFACT_MARKER = "marker.json"
"""In an artifact's folder: {"attempt", "configuration", "files": {path: size}}. The files are under
``<artifact>/<attempt>/``: two servers that compile the same artifact write to different attempts, and the
first marker stands."""


def model_prefix(model: str, revision: str) -> str:
    """Key prefix of one staged model, with a trailing slash."""
    return f"{MODELS}{model}/{revision}/"


def model_marker(model: str, revision: str) -> str:
    """Key of the marker of one staged model."""
    return model_prefix(model, revision) + MODEL_MARKER


def artifact_marker(artifact: str) -> str:
    """Key of the marker of ``artifact_path(...)``."""
    return f"{artifact}/{ARTIFACT_MARKER}"
