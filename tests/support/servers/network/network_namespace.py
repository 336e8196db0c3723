"""A network of its own for a far host: a namespace with one cable to this one. Needs root, and veth in the kernel."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_IP: Final = ("/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip")


@dataclass(frozen=True, slots=True)
class Network:
    """The far end of the cable.

    Attributes:
        address: of the far host, as the near one reaches it.
        prefix: the program that starts others in the network.
    """

    address: str
    prefix: tuple[str, ...]


@contextlib.contextmanager
def network_namespace() -> Iterator[Network | None]:
    """Another network until the block ends; None where this machine makes none."""
    ip = next((path for path in _IP if Path(path).exists()), None)
    if ip is None or os.geteuid() != 0:
        yield None
        return
    name, ours, theirs = f"lmtb-{os.getpid()}", f"lmn{os.getpid()}", f"lmf{os.getpid()}"
    third = os.getpid() % 250 + 1
    near, far = f"10.203.{third}.1", f"10.203.{third}.2"
    inside = ("netns", "exec", name, ip)
    steps = (
        ("netns", "add", name),
        ("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name),
        ("addr", "add", f"{near}/30", "dev", ours),
        ("link", "set", ours, "up"),
        (*inside, "addr", "add", f"{far}/30", "dev", theirs),
        (*inside, "link", "set", theirs, "up"),
        (*inside, "link", "set", "lo", "up"),
    )
    try:
        is_made = all(_run(ip, *step) for step in steps)
        yield Network(far, (ip, "netns", "exec", name)) if is_made else None
    finally:
        _run(ip, "link", "del", ours)
        _run(ip, "netns", "del", name)


def _run(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
