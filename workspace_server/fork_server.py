"""Runs the fork server: a process with everything loaded, from which workspace servers are forked. Linux
only.

It has one thread, no event loop, and nothing of a user or a project; a forked server gets those from its
instructions and the descriptors that come with them. It ends when the manager closes its end of the socket;
forked servers continue. `warm_up.py` loads everything; `protocol.internal.fork_server` defines the messages.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import site
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from protocol.internal import fork_server
from protocol.internal.fork_server import Exited, Forked, ForkRequest, Ready
from protocol.names import FORK_SERVER_INSTANCE
from workspace_server import log, process, warm_up

NOT_ALONE: Final = 3
"""Exit code where a library has started a thread: what that holds would be held for ever after a fork."""
_OURS: Final = frozenset({"__main__", "host", "http_server", "protocol", "workspace_server"})
_ARGUMENTS_START, _ENVIRONMENT_END = 45, 48
"""Where these addresses stand in `/proc/self/stat`, counted from behind the name."""


class _Order(NamedTuple):
    fork: ForkRequest
    listener: int
    stdin: int
    log: int
    folder: int


def main() -> NoReturn:
    """Be the template; on return from a fork, be the server."""
    channel = _take_channel()
    warm_up.rehearse()
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208  the quickest way
        log.error("template_has_threads")
        os._exit(NOT_ALONE)
    loaded = _loaded()
    stamp = _stamp(loaded)
    gc.collect()
    gc.freeze()
    channel.send(fork_server.encode(Ready()))
    order = _Template(channel, lambda: _stamp(loaded) == stamp).until_forked()
    if order is None:
        os._exit(0)
    try:
        _become(order, channel)
    except OSError as error:
        log.error("fork_failed", cause=str(error))
        os._exit(process.BAD_ORDERS)
    process.main()


def _take_channel() -> socket.socket:
    """The manager's socket, which is standard input at first."""
    channel = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return channel


def _loaded() -> tuple[str, ...]:
    """What tells whether another program would be loaded now: our files, and where all else was installed."""
    ours = (module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in _OURS)
    return sys.executable, os.path.dirname(os.__file__), *site.getsitepackages(), *filter(None, ours)  # noqa: PTH120


def _stamp(paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """How these files and folders are now."""
    return [_state(path) for path in paths]


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  hundreds of them before each fork
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class _Template:
    """Waits for orders, forks, and waits for those that end."""

    def __init__(self, channel: socket.socket, is_current: Callable[[], bool]) -> None:
        self._channel = channel
        self._is_current = is_current
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._children: dict[int, tuple[int, str]] = {}

    def until_forked(self) -> _Order | None:
        """Returns in each server, with its order; here with None at last, when nobody wants more of them."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._bury(descriptor)
                    continue
                order = self._receive()
                if order is None or not self._is_current():
                    return None
                if self._fork(order):
                    return order

    def _receive(self) -> _Order | None:
        try:
            message, descriptors, _, _ = socket.recv_fds(
                self._channel, fork_server.MESSAGE_LIMIT, fork_server.DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return None
        if not message or len(descriptors) != fork_server.DESCRIPTORS:
            return None
        return _Order(fork_server.decode_request(message), *descriptors)

    def _fork(self, order: _Order) -> bool:
        """Whether this is the server now."""
        pid = os.fork()
        if pid == 0:
            return True
        for descriptor in order[1:]:
            os.close(descriptor)
        watch = os.pidfd_open(pid)
        self._children[watch] = pid, order.fork.instance
        self._poll.register(watch, select.POLLIN)
        return False

    def _bury(self, watch: int) -> None:
        """End what is left of a server's group while the number is certainly its own, and tell its code."""
        pid, instance = self._children.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # the end of the channel is seen by who reads it
            self._channel.send(fork_server.encode(Exited(instance, code)))


def _become(order: _Order, channel: socket.socket) -> None:
    """Take on what a server that was started anew would have, and give up what is the template's.

    Raises:
        OSError: the working folder cannot be entered, or nobody hears that this server is there.
    """
    os.setsid()
    for here, there in ((order.stdin, 0), (order.log, 1), (order.log, 2)):
        os.dup2(here, there)
    os.fchdir(order.folder)
    _set_environment(order.fork.environ)
    _put_on(order.fork.instance)
    own = os.pidfd_open(os.getpid())
    socket.send_fds(channel, [fork_server.encode(Forked(order.fork.instance, os.getpid()))], [own])
    channel.detach()
    if order.listener != order.fork.listen_fd:
        os.dup2(order.listener, order.fork.listen_fd, inheritable=False)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  the quickest way
        if int(name) > 2 and int(name) != order.fork.listen_fd:
            with suppress(OSError):  # the descriptor of this very look has gone
                os.close(int(name))


def _set_environment(block: bytes) -> None:
    os.environ.clear()
    for entry in block.split(b"\0")[:-1]:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    time.tzset()


def _put_on(instance: str) -> None:
    """Let the system show this instance where it shows the template, in arguments and environment.

    Nothing rests on it but what people see: where it cannot be done, it is left.
    """
    old, new = FORK_SERVER_INSTANCE.encode(), instance.encode()
    if len(new) != len(old):
        return
    with suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ENVIRONMENT_END])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123  it has no path worth one
            memory.seek(start)
            text = memory.read(end - start)
            at = -1
            while (at := text.find(old, at + 1)) >= 0:
                memory.seek(start + at)
                memory.write(new)
