"""Finds the windows that have a project open: asks ports of this machine and discovery sockets. Blocks.

Only processes of this user are believed, which is proved by the owner of the connection's other end. Where
the platform cannot tell (all but Linux), no window is found.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from host.peers import peer_uid
from workspace_server.sources.editor import window as windows
from workspace_server.sources.editor.discovery_sockets import MAX_ADDRESS, DiscoverySocket, sockets_for
from workspace_server.sources.editor.window import Window

FIRST_PORT: Final = 48123
PORTS: Final = 50
"""How many ports, from its first one, a window tries before it gives up."""
HEALTH: Final = "/mcp/health"
MAX_HEALTH: Final = 512 * 1024
MAX_LINE: Final = 64 * 1024
CONNECT_S: Final = 0.1
ANSWER_S: Final = 1.0
"""Seconds that one window may take to answer, however it spreads its bytes."""
MAX_ASKED: Final = 16
"""Open ports that are asked in one search."""
OTHERS_AGAIN_S: Final = 30.0
"""Seconds until a port on which something else was found is asked again."""
_HERE: Final = "127.0.0.1"


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
        self._others: dict[int, float] = {}  # when to ask again, by port

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
            self._others[port] = self._clock() + OTHERS_AGAIN_S
            return None
        return windows.of_health(body, port, self._root, _real_path)

    def _listening(self, advertised: Sequence[int]) -> Iterator[int]:
        """The ports of the range that something listens on; without those where something else was found."""
        now = self._clock()
        self._others = {port: until for port, until in self._others.items() if until > now}
        for port in range(self._first_port, min(self._first_port + PORTS, 65536)):
            if port in self._others or port in advertised:
                continue
            with socket.socket() as probe:
                probe.settimeout(CONNECT_S)
                is_open = probe.connect_ex((_HERE, port)) == 0
                if is_open and probe.getsockname() != probe.getpeername():  # rarely it meets itself
                    yield port

    def _advertised(self) -> Iterator[int]:
        """The ports that discovery sockets name."""
        for one in sockets_for(self._root, self._environ):
            port = self._advertisement(one) if one.path.exists() else None
            if port is not None:
                yield port

    def _advertisement(self, place: DiscoverySocket) -> int | None:
        if len(os.fsencode(place.path)) > MAX_ADDRESS:
            return None
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX) as asked,
            _closed_after(asked.shutdown, self._answer_s),
        ):
            asked.settimeout(self._answer_s)
            asked.connect(os.fspath(place.path))
            if peer_uid.unix_peer_uid(asked) != os.getuid():
                return None
            asked.sendall(windows.discovery_request(place.identity, self._session))
            line = asked.makefile("rb").readline(MAX_LINE)
            return windows.of_advertisement(line, place.identity)
        return None


def health_of(port: int, answer_s: float = ANSWER_S) -> bytes | None:
    """What a process of this user answers to `GET /mcp/health` on a port; None for no such answer."""
    connection = http.client.HTTPConnection(_HERE, port, timeout=answer_s)
    try:
        connection.connect()
        asked: socket.socket = connection.sock
        with _closed_after(asked.shutdown, answer_s):
            connection.request("GET", HEALTH, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(MAX_HEALTH + 1)
            # only now is it certain that the other end was accepted, and so has an owner
            uid = peer_uid.tcp_peer_uid(asked.getsockname(), asked.getpeername())
            is_good = answer.status == 200 and len(body) <= MAX_HEALTH and uid == os.getuid()
            return body if is_good else None
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


def _real_path(text: str) -> Path:
    try:
        return Path(os.path.realpath(text))
    except (OSError, ValueError):
        return Path("/")
