"""How a variant is served: its command line, the name of its compiled graphs, and where things lie in the
bucket.
"""

from specdec.serving.artifact import artifact_configuration, artifact_path
from specdec.serving.command import CommandLine, command_line, library_settings, model_path

__all__ = [
    "CommandLine",
    "artifact_configuration",
    "artifact_path",
    "command_line",
    "library_settings",
    "model_path",
]
