"""The node beside the accelerators. The stack makes it so, and the estimate prices it so."""

from __future__ import annotations

NODES = 1
"""How many system nodes run: enough for DNS, the add-on controllers and the benchmark."""

VOLUME_GIB = 200
"""Root volume. Two staging pods side by side hold 60 GiB each; the kubelet keeps a tenth of the disk free."""
