"""Finds the user id at the other end of a loopback TCP connection or a unix socket.

A unix socket carries its peer's credentials. A loopback TCP connection does not, but Linux reports the owner
of the client's socket: sock_diag(7) looks one connection up in about 0.1 ms; where that is closed,
/proc/net/tcp is searched. For clients that send no token this is the only protection, so the result is None
in any doubt, and callers must treat None as another user.

A closed socket has no owner: the kernel then reports uid 0 and inode 0. That answer is never believed:
otherwise a client that closes early would pass for root.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lm_tools_bridge.machine.own_process import own_uid

_IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Address = tuple[str, int] | tuple[str, int, int, int]

# include/uapi/linux: netlink.h, sock_diag.h, inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_TCP_LISTEN = 10
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # inet_diag_req_v2 up to its socket id
_SOCKET_ID = struct.Struct("!HH16s16s12s")  # ports, addresses, then interface and cookie
_ANSWER = struct.Struct("=BBBB48sIIIII")  # inet_diag_msg: …, state, …, expires, two queues, uid, inode
_LINUX_CREDENTIALS = struct.Struct("=iII")  # ucred: pid, uid, gid
_MAC_CREDENTIALS = struct.Struct("=II")  # xucred: version, uid, then groups
_MAC_SIZE = 76
_NO_CREDENTIALS = (OSError, struct.error, ValueError)
"""What a socket raises that is closed, not connected or of another kind."""
_MAC_LEVEL, _MAC_OPTION = 0, 1  # SOL_LOCAL, LOCAL_PEERCRED
_MAC_PID, _MAC_PID_OPTION = struct.Struct("=i"), 2  # LOCAL_PEERPID
_ANY_SOCKET = b"\0" * 4 + b"\xff" * 8  # any interface, no cookie
_kernel: socket.socket | None = None
_one_question = threading.Lock()  # threads share the socket, and would get each other's answers


class SocketOwner(NamedTuple):
    """Whose a socket is, and its inode, by which the files of its processes name it."""

    uid: int
    inode: int


def tcp_peer_uid(local: Address, remote: Address) -> int | None:
    """Returns the uid that owns the other end of a loopback TCP connection.

    `local` and `remote` are as the accepted socket sees them (`getsockname()`, `getpeername()`). None where
    the platform cannot tell, the addresses are not this machine's, or the other end is already closed.
    """
    owner = tcp_peer_owner(local, remote)
    return None if owner is None else owner.uid


def tcp_peer_inode(local: Address, remote: Address) -> int | None:
    """Returns the inode of the socket at the other end; None as for `tcp_peer_uid`."""
    owner = tcp_peer_owner(local, remote)
    return None if owner is None else owner.inode


def tcp_peer_owner(local: Address, remote: Address) -> SocketOwner | None:
    """Returns whose the socket at the other end is; None as for `tcp_peer_uid`."""
    if sys.platform != "linux":
        return None
    try:
        here, there = _plain(local[0]), _plain(remote[0])
    except ValueError:
        return None
    if here.version != there.version:
        return None
    # Seen from the client's socket, `there` is its own address.
    with suppress(OSError, struct.error):
        state, owner = _ask_kernel(there, remote[1], here, local[1])
        # Without an exact match the kernel offers a listener on the client's port: somebody else's socket.
        if owner is not None and state != _TCP_LISTEN:
            return owner
    with suppress(OSError, ValueError):
        return _search_proc(there, remote[1], here, local[1])
    return None


def tcp_listener(address: Address) -> SocketOwner | None:
    """Returns whose socket takes new connections to an address of this machine; None where unknown."""
    if sys.platform != "linux":
        return None
    here = _plain(address[0])
    with suppress(OSError, struct.error):
        # no connection has this other end, so the kernel looks for a listener
        state, owner = _ask_kernel(here, address[1], type(here)(0), 0)
        return owner if state == _TCP_LISTEN else None
    with suppress(OSError, ValueError):
        return _listener_in_proc(here, address[1])
    return None


def is_served_by_us(local: Address, remote: Address) -> bool:
    """Whether a process of this user serves a new connection, or will accept it. False where that is unknown.

    A connection that is not accepted yet has no owner. So the listener is looked at first: if it ends, its
    connections that were not accepted end too, and if it accepted this one, the second look sees by whom.

    Args:
        local, remote: as for `tcp_peer_uid`.
    """
    listener = tcp_listener(remote)
    if listener is None:  # it may have closed after it accepted, as when a manager is replaced
        return tcp_peer_uid(local, remote) == own_uid()
    if listener.uid != own_uid():
        return False
    ends = _plain(remote[0]), remote[1], _plain(local[0]), local[1]
    with suppress(OSError, struct.error):
        _state, owner = _ask_kernel(*ends)
        return owner is None or owner.uid == own_uid()
    with suppress(OSError, ValueError):
        owner = _search_proc(*ends)
        return owner is None or owner.uid == own_uid()
    return False


def unix_peer_uid(sock: socket.socket) -> int | None:
    """Returns the uid of the process at the other end of a connected unix socket; None where unknown."""
    if sys.platform == "win32" or sock.family != socket.AF_UNIX:
        return None
    with suppress(*_NO_CREDENTIALS):
        if sys.platform == "linux":
            pid, uid = _linux_credentials(sock)
            return uid if pid else None  # a socket that is not connected has no pid and the uid 2**32 - 1
        if sys.platform == "darwin":
            raw = sock.getsockopt(_MAC_LEVEL, _MAC_OPTION, _MAC_SIZE)
            version, uid = _MAC_CREDENTIALS.unpack_from(raw)
            return uid if version == 0 else None
    return None


def unix_peer_pid(sock: socket.socket) -> int | None:
    """Returns the process that connected a unix socket; None where unknown."""
    with suppress(*_NO_CREDENTIALS):
        if sys.platform == "linux":  # a socket of another family has no such credentials: their pid is 0
            return _linux_credentials(sock)[0] or None
        if sys.platform == "darwin":
            (pid,) = _MAC_PID.unpack(sock.getsockopt(_MAC_LEVEL, _MAC_PID_OPTION, _MAC_PID.size))
            return pid or None
    return None


def _linux_credentials(sock: socket.socket) -> tuple[int, int]:
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, "no such credentials here")
    # uvloop's stand-in for a socket makes a Python socket for each question, which takes six times as long
    plain = socket.SocketType(socket.AF_UNIX, socket.SOCK_STREAM, 0, sock.fileno())
    try:
        raw = plain.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX_CREDENTIALS.size)
    finally:
        plain.detach()
    pid, uid, _gid = _LINUX_CREDENTIALS.unpack(raw)
    return pid, uid


def proc_net_name(address: _IP, port: int, *, mapped: bool = False) -> str:
    """Returns an address as /proc/net/tcp writes it, e.g. `0100007F:B7FC` (words in machine byte order).

    `mapped` gives the form of an IPv4 address in /proc/net/tcp6.
    """
    packed = address.packed
    if mapped and len(packed) == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _plain(host: str) -> _IP:
    """IPv4 inside IPv6 is IPv4 for the kernel's tables."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _ask_kernel(
    source: _IP, source_port: int, target: _IP, target_port: int
) -> tuple[int, SocketOwner | None]:
    """The state of the best match, and whose it is; no owner for none, and for a closed socket."""
    family = socket.AF_INET if source.version == 4 else socket.AF_INET6
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + _SOCKET_ID.pack(
        source_port, target_port, source.packed, target.packed, _ANY_SOCKET
    )
    request = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body
    with _one_question:
        kernel = _kernel_socket()
        try:
            kernel.sendto(request, (0, 0))
            answer = kernel.recv(4096)
        except OSError:
            close_kernel_socket()  # a late answer would be taken for that of the next request
            raise
    _length, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return 0, None
    _family, state, *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return state, SocketOwner(uid, inode) if inode else None


def _kernel_socket() -> socket.socket:
    """One socket for all requests: where no more files can be opened, users are still told apart."""
    global _kernel  # noqa: PLW0603  the kernel is one, too
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, "sock_diag(7) is of Linux")
    if _kernel is None:
        _kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        _kernel.setblocking(False)  # the kernel answers while it takes the request
    return _kernel


def close_kernel_socket() -> None:
    """Close the socket for requests to the kernel; the next request opens it again.

    A process that forks must do so before: the child would take whatever has the number later for it.
    """
    global _kernel  # noqa: PLW0603  see above
    if _kernel is not None:
        _kernel.close()
        _kernel = None


def _search_proc(source: _IP, source_port: int, target: _IP, target_port: int) -> SocketOwner | None:
    for table, mapped in (("tcp", False), ("tcp6", True)):
        if not mapped and source.version == 6:
            continue
        ends = [
            proc_net_name(source, source_port, mapped=mapped),
            proc_net_name(target, target_port, mapped=mapped),
        ]
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == ends:
                    return SocketOwner(int(fields[7]), int(fields[9])) if fields[9] != "0" else None
    return None


def _listener_in_proc(address: _IP, port: int) -> SocketOwner | None:
    every = (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))
    for table, mapped in (("tcp", False), ("tcp6", True)):
        names = {proc_net_name(place, port, mapped=mapped) for place in (address, *every)}
        names.add(proc_net_name(every[1], port))
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1] in names and int(fields[3], 16) == _TCP_LISTEN:
                    return SocketOwner(int(fields[7]), int(fields[9]))
    return None
