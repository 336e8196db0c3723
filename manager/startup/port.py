"""Binds the listening sockets: the fixed port, those of workspace servers, and the control socket.

The fixed port lies in Linux's ephemeral range, so a bind can fail because of an outgoing connection on it
or its TIME_WAIT state (60 s): such a bind is retried. A program that *listens* there would not go away. A
connection attempt tells the two apart; the process table (`psutil`) and /proc/net/tcp only word the
explanation, because an ordinary user cannot see all of them.

After an upgrade, programs that were started before it go on: `lmtb connect` in an agent, and servers that
register themselves. They find the manager through a link in place of the control socket that they know.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lm_tools_bridge.machine.own_process import own_euid
from lm_tools_bridge.machine.peer_uid import proc_net_name

if TYPE_CHECKING:
    import random


_BESIDE: Final = ".control.sock.new"


def leave_signposts(control_socket: Path, former_dirs: Iterable[Path]) -> None:
    """Leave a link in each of these folders that exists and is ours. Failures are harmless and ignored.

    The caller is the manager of `control_socket`, and has seen that none serves in these folders.
    """
    for folder in former_dirs:
        with suppress(OSError):
            if folder.lstat().st_uid == own_euid() and not folder.is_symlink():
                beside = folder / _BESIDE
                beside.unlink(missing_ok=True)
                beside.symlink_to(control_socket)
                beside.replace(folder / control_socket.name)


def remove_signposts(control_socket: Path, former_dirs: Iterable[Path]) -> None:
    """Remove the links that lead to this socket."""
    for folder in former_dirs:
        link = folder / control_socket.name
        with suppress(OSError):
            if link.readlink() == control_socket:
                link.unlink()


# A port in TIME_WAIT is free after 60 s at most: the start is late by less than a person notices.
RETRY_SECONDS = 0.25
# Below Linux's ephemeral range (32768 …), so that no outgoing connection can take a workspace's port.
WORKSPACE_PORTS = range(21000, 30000)
_BACKLOG = 512
_PROBE_SECONDS = 0.5
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound

Kind = Literal["listener", "outgoing", "time_wait", "unknown"]
_REASONS: dict[Kind, str] = {
    "listener": "another program listens on it",
    "outgoing": "an outgoing connection of another program uses it",
    "time_wait": "a closed connection still blocks it (TIME_WAIT, up to 60 s)",
    "unknown": "something that cannot be seen uses it",
}


class PortTaken(msgspec.Struct, frozen=True):
    """The port is in use. Details about its owner are None where this user may not see them."""

    host: str
    port: int
    kind: Kind
    pid: int | None = None
    user: str | None = None
    program: str | None = None

    def __str__(self) -> str:
        """One sentence for people, with pid, user and program where known."""
        holder = [
            f"program {self.program}" if self.program else "",
            f"pid {self.pid}" if self.pid else "",
            f"user {self.user}" if self.user else "",
        ]
        description = ", ".join(filter(None, holder))
        return f"{self.host}:{self.port} is taken: {_REASONS[self.kind]}" + (
            f" ({description})" if description else ""
        )


async def bind_fixed(
    host: str,
    port: int,
    *,
    patience: float = 75,
    sleep: Callable[[float], Awaitable[object]],
    monotonic: Callable[[], float],
    on_wait: Callable[[PortTaken], object],
) -> socket.socket | PortTaken:
    """Returns a listening, non-inheritable socket on `host` (a literal address), or why the port is in use.

    If another program listens on the port, this returns at once. Otherwise the bind is retried every 250 ms
    for at most `patience` seconds; `on_wait` is called once, before the first wait, with the reason. Port 0
    lets the system choose. Errors other than "address in use" are raised as OSError.
    """
    deadline = monotonic() + patience
    waiting = False
    while True:
        try:
            return _listen(host, port, reuse=True)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        listens = await _somebody_listens(host, port)
        if listens or monotonic() >= deadline:
            return await asyncio.to_thread(_explain, host, port, listens)
        if not waiting:
            waiting = True
            on_wait(await asyncio.to_thread(_explain, host, port, listens))
        await sleep(RETRY_SECONDS)


def reserve(rng: random.Random, ports: range = WORKSPACE_PORTS) -> socket.socket:
    """Returns a socket listening on 127.0.0.1 at a free port of `ports`, to be passed to a workspace server.

    The search starts at a random port, so that a port that was just released is rarely reused at once. Only
    a child process that gets the socket explicitly (`pass_fds`) inherits it. Raises OSError (EADDRINUSE) if
    no port is free.
    """
    start = rng.randrange(len(ports))
    for offset in range(len(ports)):
        try:
            return _listen("127.0.0.1", ports[(start + offset) % len(ports)], reuse=False)
        except OSError as error:
            # In use, or (on Windows) reserved by the system: try the next port.
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port between {ports[0]} and {ports[-1]}")


def _listen(host: str, port: int, *, reuse: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # Here SO_REUSEADDR would allow two programs on one port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        elif reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)  # two binds with SO_REUSEADDR can both succeed: only one of them can listen
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


async def _somebody_listens(host: str, port: int) -> bool:
    """A refused connection proves that nobody listens; a hanging one is a listener with a full queue."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(probe, (host, port))
        except TimeoutError:
            return True
        except OSError:
            return False
        return True


def _explain(host: str, port: int, listens: bool) -> PortTaken:
    import psutil

    states: list[tuple[str, int | None]] = []
    with suppress(psutil.Error, OSError):  # without permission the explanation stays short
        states = [
            (entry.status, entry.pid)
            for entry in psutil.net_connections("tcp")
            if entry.laddr and entry.laddr.port == port and _matches_host(entry.laddr.ip, host)
        ]
    kind, pid = _classify(states, listens)
    user = program = None
    if pid is not None:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            user, program = process.username(), process.name()
    return PortTaken(host, port, kind, pid, user or _owner_of(host, port, kind), program)


def _classify(states: list[tuple[str, int | None]], listens: bool) -> tuple[Kind, int | None]:
    import psutil

    if listens:
        return "listener", next((pid for status, pid in states if status == psutil.CONN_LISTEN and pid), None)
    alive = [pid for status, pid in states if status not in {psutil.CONN_TIME_WAIT, psutil.CONN_LISTEN}]
    if alive:
        return "outgoing", next((pid for pid in alive if pid), None)
    return ("time_wait" if states else "unknown"), None


def _matches_host(address: str, host: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed) in {host, *_WILDCARDS}


def _owner_of(host: str, port: int, kind: Kind) -> str | None:
    """The owner's name from /proc/net/tcp, which names the uid of sockets whose pid is hidden from us."""
    if sys.platform != "linux" or kind in {"time_wait", "unknown"}:
        return None
    import pwd

    names = {proc_net_name(ipaddress.ip_address(local), port) for local in (host, *_WILDCARDS)}
    names.add(proc_net_name(ipaddress.ip_address(host), port, mapped=True))
    for fields in _proc_net_rows():
        if fields[1] in names and (fields[3] == "0A") == (kind == "listener") and fields[9] != "0":
            with suppress(KeyError):
                return pwd.getpwuid(int(fields[7])).pw_name
            return f"uid {fields[7]}"
    return None


def _proc_net_rows() -> list[list[str]]:
    lines: list[str] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # no tcp6 where IPv6 is off
            lines += Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]
    return [line.split() for line in lines]


def is_bindable(port: int) -> bool:
    """Whether 127.0.0.1 with this port can be bound right now.

    SO_REUSEADDR is off, so that a port that is bound but does not listen yet counts as taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if sys.platform == "win32":
            # otherwise Windows lets a port be bound that another program holds
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def private_socket(path: Path) -> socket.socket:
    """A Unix socket bound to this path, with mode 0600 from the moment it exists."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # no await until it is restored: the mask belongs to the whole process, and children inherit it
    mask = os.umask(0o177)
    try:
        sock.bind(str(path))
    finally:
        os.umask(mask)
    return sock
