"""The node beside the accelerators. The stack makes it so, and the estimate prices it so."""

from __future__ import annotations


def nodes(clients: int) -> int:
    """How many system nodes run: one is enough for DNS, the add-on controllers and the benchmark, and each
    further benchmark client has one of its own.
    """
    return max(1, clients)


VOLUME_GIB = 200
"""Root volume. Two staging pods side by side hold 60 GiB each; the kubelet keeps a tenth of the disk free."""
