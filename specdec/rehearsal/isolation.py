"""Cuts this process off from every network but its own loopback, to prove that nothing else is needed.

Linux only: network_namespaces(7), user_namespaces(7), netdevice(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

from specdec.errors import EnvironmentFault

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_REMEDY = (
    "Leave out --offline, or allow it: run as root, or let users make namespaces "
    "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0)"
)


def enter() -> None:
    """Moves this process, and all it starts from now on, into a network namespace that holds only loopback.

    There is no way back. Must be called while the process has one thread.

    Raises:
        EnvironmentFault: this system does not have or does not allow network namespaces.
    """
    if not sys.platform.startswith("linux"):
        raise EnvironmentFault(
            f"Network namespaces are a feature of Linux; this is {sys.platform}", remedy="Leave out --offline"
        )
    user, group = os.getuid(), os.getgid()
    error = _unshare(_CLONE_NEWNET)
    if error:
        # Whoever may not do it outright may do it in a user namespace of their own.
        error = _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        if error:
            raise EnvironmentFault(
                f"This machine does not allow a network namespace (unshare: {os.strerror(error)})",
                remedy=_REMEDY,
            )
        try:
            _map_to_self(user, group)
        except OSError as refused:
            raise EnvironmentFault(
                f"This machine does not allow a user namespace ({refused})", remedy=_REMEDY
            ) from None
    _bring_loopback_up()


def _unshare(flags: int) -> int:
    """Calls unshare(2); 0 or the error number."""
    library = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if library.unshare(flags) else 0


def _map_to_self(user: int, group: int) -> None:
    process = Path("/proc/self")
    (process / "setgroups").write_text("deny", encoding="ascii")
    (process / "uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    (process / "gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        name, flags = struct.unpack("16sh22x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | _IFF_UP))
