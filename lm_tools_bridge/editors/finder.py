"""Finds the windows that have a project open: asks ports of this machine and discovery sockets. Blocks.

Only processes of this user are believed, which is proved by the owner of the connection's other end. Where
the platform cannot tell (all but Linux), no window is found.

A window of a later version says its port on `<temporary folder>/<prefix><SHA-256 of its identity>.sock`, if
that path fits into a socket address. Its identity is its folder, or its workspace file, as the user opened
it.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.editors import window as windows
from lm_tools_bridge.editors.window import Window
from lm_tools_bridge.machine import peer_uid
from lm_tools_bridge.machine.own_process import own_uid

PREFIX: Final = "lm-tools-bridge.discovery.v1."
PREFIX_VARIABLE: Final = "LM_TOOLS_BRIDGE_DISCOVERY_PIPE_PREFIX"
MAX_ADDRESS: Final = 107
"""Bytes that the path of a socket may have on Linux."""
MAX_LEVELS: Final = 32
"""Folders above the project, each of which is read. Projects lie about ten deep."""
MAX_FILES: Final = 16
"""Each `*.code-workspace` file of a folder costs a look for its socket; folders have one or two."""
_SUFFIX: Final = ".code-workspace"
_DEFAULT: Final = "/tmp"  # noqa: S108  where Node.js looks; its owner is checked
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9._-]")


@dataclass(frozen=True, slots=True)
class DiscoverySocket:
    """Where a window with this identity would answer."""

    path: Path
    identity: str


def sockets_for(root: Path, environ: Mapping[str, str]) -> Iterator[DiscoverySocket]:
    """The sockets of windows that may have the project open, from its folder upwards.

    At each level the `*.code-workspace` files come first, because such a window has more folders.
    """
    for folder in [root, *root.parents][:MAX_LEVELS]:
        for file in workspace_files(folder):
            yield _socket("workspace-file", file, environ)
        yield _socket("folder", folder, environ)


def workspace_files(folder: Path) -> list[Path]:
    """The `*.code-workspace` files of a folder, in order of their names. Blocks."""
    try:
        with os.scandir(folder) as entries:  # a path for each entry of a temporary folder takes 0.5 MB
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIX)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name != _SUFFIX][:MAX_FILES]


def identity_of(kind: str, path: Path) -> str:
    """The identity of a window: `folder|…` or `workspace-file|…`, as its extension writes it."""
    return f"{kind}|{str(path).replace('/', chr(92)).lower()}"


def _socket(kind: str, path: Path, environ: Mapping[str, str]) -> DiscoverySocket:
    identity = identity_of(kind, path)
    prefix = _UNFIT.sub("_", environ.get(PREFIX_VARIABLE, "").strip() or PREFIX)
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return DiscoverySocket(_temporary_folder(environ) / f"{prefix}{digest}.sock", identity)


def _temporary_folder(environ: Mapping[str, str]) -> Path:
    """The temporary folder as Node.js finds it."""
    folder = next((environ[name] for name in ("TMPDIR", "TMP", "TEMP") if environ.get(name)), _DEFAULT)
    return Path(folder)


FIRST_PORT: Final = 48123
"""The first port of the extension (`lmToolsBridge.server.port`), unless its user chose another one."""
PORTS: Final = 50
"""How many ports, from its first one, a window tries before it gives up."""
HEALTH: Final = "/mcp/health"
MAX_HEALTH: Final = 512 * 1024
"""The answer describes the folders and tools of a window; that of a stranger is not read further."""
MAX_LINE: Final = 64 * 1024
"""An advertisement has an identity and a port, less than two kilobytes."""
ANSWER_S: Final = 1.0
"""Seconds that one window may take to answer, however it spreads its bytes."""
MAX_ASKED: Final = 16
"""Open ports that are asked in one search."""
ASK_AGAIN_S: Final = (5.0, 10.0, 20.0, 30.0)
"""Seconds until a listener that is no window is asked again. The first is short: a window that starts may be
busy. The last is long, because one that never answers costs `ANSWER_S` each time."""
_HERE: Final = "127.0.0.1"


class _OtherListener(NamedTuple):
    """A listener that is no window.

    Attributes:
        inode: of its socket.
        times: how often it was asked again.
        ask_at: when it is asked next, on the clock of the finder.
    """

    inode: int | None
    times: int
    ask_at: float


class WindowFinder:
    """Searches for windows of one project.

    Args:
        root: the project's folder, link-free.
        environ: names the temporary folder, and the prefix of discovery sockets.
        first_port: the first of the `PORTS` ports on which windows serve.
        session: names this program in discovery requests.
        answer_s: see `ANSWER_S`.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str],
        first_port: int = FIRST_PORT,
        *,
        session: str = "lm-tools-bridge",
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._environ = environ
        self._first_port = first_port
        self._session = session
        self._answer_s = answer_s
        self._clock = clock
        self._others: dict[int, _OtherListener] = {}  # by port

    def find(self) -> Sequence[Window]:
        """All windows that have the project open, the most fitting first."""
        advertised = list(self._advertised())
        ports = list(dict.fromkeys([*advertised, *self._listening(advertised)]))[:MAX_ASKED]
        if len(ports) < 2:
            return windows.in_order(filter(None, map(self.ask, ports)))
        with ThreadPoolExecutor(MAX_ASKED, "ask-windows") as pool:  # some may not answer
            return windows.in_order(filter(None, pool.map(self.ask, ports)))

    def ask(self, port: int) -> Window | None:
        """The window on this port, if it has the project open now."""
        body = health_of(port, self._answer_s)
        if body is None:
            self._put_off(port)
            return None
        return windows.of_health(body, port, self._root, _real_path)

    def _listening(self, advertised: Sequence[int]) -> Iterator[int]:
        """The ports of the range that a program of this user listens on, but for those that have to wait."""
        now = self._clock()
        for port in range(self._first_port, min(self._first_port + PORTS, 65536)):
            listener = peer_uid.tcp_listener((_HERE, port))
            other = self._others.get(port)
            has_to_wait = other is not None and other.inode == _inode(listener) and now < other.ask_at
            is_ours = listener is not None and listener.uid == own_uid()
            if is_ours and not has_to_wait and port not in advertised:
                yield port

    def _put_off(self, port: int) -> None:
        """Ask this listener later. A window on its port is another listener, and is asked at once."""
        inode, before = _inode(peer_uid.tcp_listener((_HERE, port))), self._others.get(port)
        times = before.times + 1 if before is not None and before.inode == inode else 0
        wait_s = ASK_AGAIN_S[min(times, len(ASK_AGAIN_S) - 1)]
        self._others[port] = _OtherListener(inode, times, self._clock() + wait_s)

    def _advertised(self) -> Iterator[int]:
        """The ports that discovery sockets name."""
        for place in sockets_for(self._root, self._environ):
            port = self._advertisement(place) if place.path.exists() else None
            if port is not None:
                yield port

    def _advertisement(self, place: DiscoverySocket) -> int | None:
        if len(os.fsencode(place.path)) > MAX_ADDRESS:
            return None
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX) as connection,
            _closed_after(connection.shutdown, self._answer_s),
        ):
            connection.settimeout(self._answer_s)
            connection.connect(os.fspath(place.path))
            if peer_uid.unix_peer_uid(connection) != own_uid():
                return None
            connection.sendall(windows.discovery_request(place.identity, self._session))
            line = connection.makefile("rb").readline(MAX_LINE)
            return windows.of_advertisement(line, place.identity)
        return None


def health_of(port: int, answer_s: float = ANSWER_S) -> bytes | None:
    """What a process of this user answers to `GET /mcp/health` on a port; None for no such answer."""
    connection = http.client.HTTPConnection(_HERE, port, timeout=answer_s)
    try:
        connection.connect()
        sock: socket.socket = connection.sock
        if not peer_uid.is_served_by_us(sock.getsockname(), sock.getpeername()):
            return None
        with _closed_after(sock.shutdown, answer_s):
            connection.request("GET", HEALTH, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(MAX_HEALTH + 1)
            return body if answer.status == 200 and len(body) <= MAX_HEALTH else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def _closed_after(shutdown: Callable[[int], None], seconds: float) -> Iterator[None]:
    """Limit the block in all: time-outs of sockets are about each single read."""

    def stop() -> None:
        with contextlib.suppress(OSError):
            shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _inode(listener: peer_uid.SocketOwner | None) -> int | None:
    return None if listener is None else listener.inode


def _real_path(text: str) -> Path:
    try:
        return Path(os.path.realpath(text))
    except (OSError, ValueError):
        return Path("/")
