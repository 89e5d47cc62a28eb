"""Tells which libraries this image has and which driver this node has: JSON in the container's last words.

Kubernetes keeps the words in the pod's status, where the benchmark reads them. A server must not wait for
this, so it always ends well.
"""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

DRIVER = pathlib.Path(os.environ.get("DRIVER", "/sys/module/neuron/version"))
WORDS = pathlib.Path(os.environ.get("WORDS", "/dev/termination-log"))
PYTHON = (
    "vllm",
    "vllm-neuron",
    "neuronx-distributed-inference",
    "neuronx-distributed",
    "neuronx-cc",
    "libneuronxla",
    "torch-neuronx",
    "torch",
)
SYSTEM = ("aws-neuronx-runtime-lib", "aws-neuronx-collectives", "aws-neuronx-tools")


def main() -> None:
    """Finds out what there is, prints it, and leaves it where Kubernetes looks."""
    found = {"kernel": platform.release()}
    try:
        found["driver"] = DRIVER.read_text().strip()
    except OSError as error:
        found["driver"] = f"unknown: {error}"
    for name in PYTHON:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for name in SYSTEM:
        command = ["dpkg-query", "--show", "--showformat=${Version}", name]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if asked.returncode == 0:
            found[name] = asked.stdout.strip()
    words = json.dumps(found, sort_keys=True)
    print(words)
    try:
        WORDS.write_text(words)
    except OSError as error:
        print(f"not told: {error}")


if __name__ == "__main__":
    main()
