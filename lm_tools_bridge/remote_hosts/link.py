"""Keeps the line to one host: makes it when it is needed, measures it, and makes it again when it was cut.

Requests to the control socket of the manager there go over it. `lm_tools_bridge/remote_hosts/tunnel/` is
imported with the first line only: few managers need h2.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure
from lm_tools_bridge.remote_hosts.transports import SERVE, background
from manager.log import logger
from manager.supervision.dependencies import Dependencies
from manager.upstream.connection import Connection
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure
from manager.upstream.pool import Pool
from manager.upstream.response import UpstreamResponse

if TYPE_CHECKING:
    from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd

ANSWER_S: Final = 40.0
"""The manager there may have to start a project's server for its answer, which may take 30 s."""
MAX_ANSWER: Final = 16 * 1024 * 1024
"""Twice the memory of this is used while an answer is decoded; a project's lists stay far below."""
HOST_FIELD: Final = ("localhost", 0)
"""What requests over a line say for `Host`: nobody's address (`AdmissionRules.for_managers`)."""

Dials = Callable[[str, Callable[[], Connection]], Coroutine[Any, Any, Connection]]


class FarControl:
    """The control socket of the manager on one host.

    Args:
        dial: connects a protocol to a target on the host.
    """

    def __init__(self, dial: Dials) -> None:
        self._pool = Pool(
            *HOST_FIELD,
            verify=lambda head, body: head.status == 200,
            verify_path=b"/health",
            connect_timeout=ANSWER_S,
            max_idle=2,
            dial=lambda make: dial("control", make),
        )

    async def ask(
        self, target: str, payload: Mapping[str, object], *, limit_s: float | None = None
    ) -> tuple[int, bytes]:
        """POST a JSON object; HTTP status and body of the answer.

        Args:
            limit_s: seconds after which the answer is no longer awaited; `ANSWER_S` if it is None.

        Raises:
            UpstreamFailure: the manager there did not answer.
        """
        fields = ((b"Content-Type", b"application/json"),)
        try:
            async with asyncio.timeout(ANSWER_S if limit_s is None else limit_s):
                body = json.dumps(payload).encode()
                response = await self._pool.request(b"POST", target.encode(), fields, body)
                return response.head.status, await response.read(MAX_ANSWER)
        except (ResponseTooLarge, TimeoutError) as error:
            raise UpstreamFailure(Blame.MAYBE_DELIVERED, "timeout") from error

    async def open(self, target: str) -> UpstreamResponse:
        """GET a path; the caller reads the answer as it comes.

        Raises:
            UpstreamFailure: the manager there did not answer.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._pool.request(b"GET", target.encode(), (), b"")
        except TimeoutError as error:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "timeout") from error


PING_S: Final = 15.0
"""Two pings and more fit into `DEAD_S`, so that one lost answer does not cut a line."""
DEAD_S: Final = 40.0
"""Silence after which the line counts as cut: two pings and more are not answered."""
STEADY_S: Final = 30.0
"""A line that was cut sooner counts as a failed attempt: the next one has to wait."""

_PASSING: Final = frozenset({FailureKind.CUT, FailureKind.UNREACHABLE})
"""Failures that may pass by themselves."""

Opens = Callable[[Sequence[str], Mapping[str, str]], Coroutine[Any, Any, "NearEnd | LineFailure"]]
Attends = Callable[["Link", "NearEnd"], Coroutine[Any, Any, None]]


class Link:
    """The line to one host, shared by all projects there.

    Args:
        name: what the user calls the host.
        command: the words that run this program there.
        control_path: finds the socket of a login that a person made; None if there is none.
        open_line: replaces `near_end.open_line` in tests.
        attend: runs beside each line, and is cancelled when it ends.

    Attributes:
        control: sends requests to the control socket of the manager there.
        failure: why there is no line, after the last attempt; None while there is one.
        tells_approvals: whether the manager there tells which calls wait for a person.
        on_change: called when the line was made or lost.
        used_at: monotonic time when somebody asked for the line last.
    """

    def __init__(
        self,
        name: str,
        host: Host,
        command: Sequence[str],
        dependencies: Dependencies,
        *,
        control_path: Callable[[], str | None] = lambda: None,
        open_line: Opens | None = None,
        attend: Attends | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.command = tuple(command)
        self.failure: LineFailure | None = None
        self.tells_approvals = False
        self.on_change: set[Callable[[], None]] = set()
        self.used_at = dependencies.now()
        self._dependencies = dependencies
        self._control_path = control_path
        self._open_line = open_line
        self.attend = attend
        self._line: NearEnd | None = None
        self._last: NearEnd | None = None  # what was opened last: its keeper alone makes the next one
        self._opening: asyncio.Task[None] | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._is_closed = False
        self.control = FarControl(self.dial)
        self._log = logger(host=str(host))

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether there is a line."""
        return self._line is not None and self._line.carrier.is_open

    @property
    def is_closed(self) -> bool:
        """Whether the line has ended for good: the user has removed the host, or described it anew."""
        return self._is_closed

    @property
    def latency_s(self) -> float | None:
        """The time that a ping takes to the host and back; None if unknown."""
        return None if self._line is None else self._line.carrier.latency_s

    @property
    def line(self) -> NearEnd | None:
        """The line; None if there is none. Another object after each cut."""
        return self._line if self.is_up else None

    def retry_after_s(self) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self._not_before - self._dependencies.now())

    def as_json(self) -> dict[str, Any]:
        """The line, for status."""
        line, latency = self.line, self.latency_s
        greeting = None if line is None else line.greeting
        without = "connecting" if self._opening else "failed" if self.failure else "idle"
        return {
            "name": self.name,
            "address": str(self.host),
            "state": without if line is None else "connected",
            "latencyMs": None if latency is None or line is None else round(latency * 1000, 2),
            "version": None if greeting is None else greeting.version,
            "machine": None if greeting is None else greeting.host,
            "user": None if greeting is None else greeting.user,
            "pid": None if line is None else line.pid,
            "streams": 0 if line is None else line.carrier.stream_count,
            "cause": None if self.failure is None else self.failure.kind.word,
            "said": [] if self.failure is None else list(self.failure.said),
            "retryAfterSec": round(self.retry_after_s(), 1),
            "tellsApprovals": line is not None and self.tells_approvals,
        }

    # -- used by projects -----------------------------------------------------------------------------------

    async def ensure(self, *, urgent: bool = False) -> NearEnd | LineFailure:
        """The line, which is made if needed; concurrent callers share one attempt.

        Args:
            urgent: for a handshake: does not wait for the pause after a failure.
        """
        self.used_at = self._dependencies.now()
        if self._is_closed:
            return LineFailure(FailureKind.CUT)
        if (line := self.line) is not None:
            return line
        if self._opening is None:
            if not urgent and self.failure is not None and self.retry_after_s() > 0:
                return self.failure
            self._opening = asyncio.create_task(self._open(), name=f"line to {self.host}")
        await asyncio.wait({self._opening})
        return self.line or self.failure or LineFailure(FailureKind.CUT)

    async def dial(self, target: str, make: Callable[[], Connection]) -> Connection:
        """Connect a protocol to a target on the host.

        Raises:
            OSError: there is no line.
        """
        from lm_tools_bridge.remote_hosts.tunnel.stream_transport import connect  # noqa: PLC0415  loads h2

        line = self.line
        if line is None:
            raise ConnectionResetError("the line is gone")
        return connect(line.carrier, target, make)[1]

    async def ask(
        self, target: str, payload: Mapping[str, object], *, limit_s: float | None = None
    ) -> tuple[int, bytes]:
        """POST a JSON object to the manager there, see `FarControl.ask`."""
        return await self.control.ask(target, payload, limit_s=limit_s)

    async def close(self) -> None:
        """End the line. It is not made again."""
        self._is_closed = True
        await _cancelled(self._keeping)
        await self.disconnect()

    async def disconnect(self) -> None:
        """End the line, or the attempt to make it, until it is needed again."""
        await _cancelled({self._opening} if self._opening else ())
        line, self._line = self._line, None
        if line is not None:
            line.close()
            await line.reap()
            self._changed()

    # -- making it ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        try:
            words = [*self.command, *SERVE]
            command = background(self.host, words, self._control_path())
            opened = await self._opener()(command, self._dependencies.environ)
        finally:
            self._opening = None
        if isinstance(opened, LineFailure):
            self._record_failure(opened)
            return
        self.failure, self._line, self._last = None, opened, opened
        self._log.info("line.open", pid=opened.pid, version=opened.greeting.version)
        opened.carrier.ping()
        keeping = asyncio.create_task(self._keep(opened), name=f"keep line to {self.host}")
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        self._changed()

    def _opener(self) -> Opens:
        if self._open_line is not None:
            return self._open_line
        from lm_tools_bridge.remote_hosts.tunnel.near_end import open_line  # noqa: PLC0415  loads h2

        return open_line

    def _record_failure(self, failure: LineFailure) -> None:
        self.failure = failure
        self._pause()
        self._log.warning("line.failed", cause=failure.kind.word, said=list(failure.said))
        self._changed()

    def _pause(self) -> None:
        dependencies = self._dependencies
        self._failures += 1
        self._not_before = dependencies.now() + backoff(self._failures, dependencies.rng.random())

    async def _keep(self, line: NearEnd) -> None:
        """Measure the line until it ends, then make it again while projects use it."""
        began = self._dependencies.now()
        beside = [] if self.attend is None else [asyncio.create_task(self.attend(self, line))]
        try:
            while not line.ended.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PING_S):
                        await line.ended.wait()
                if self._dependencies.now() - line.carrier.heard_at > DEAD_S:
                    line.carrier.close("nothing arrived for too long")
                line.carrier.ping()
        finally:
            await _cancelled(beside)
        is_steady = self._dependencies.now() - began >= STEADY_S
        if is_steady:
            self._failures = 0
        if self._line is line:
            if not is_steady:
                self._pause()
            self._line = None
            self.failure = LineFailure(FailureKind.CUT)
            self._changed()
        await line.reap()
        self._log.warning("line.cut", why=line.why, said=line.said())
        while self._last is line and self._wants_line():
            await self._dependencies.sleep(self.retry_after_s())
            await self.ensure(urgent=True)

    def _wants_line(self) -> bool:
        """Whether the line has to be made again: a login that was refused would only be refused again."""
        can_pass = self.failure is not None and self.failure.kind in _PASSING
        return bool(self.on_change) and can_pass and not self.is_up and not self._is_closed

    def _changed(self) -> None:
        for call in tuple(self.on_change):
            call()


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = [task for task in tasks if task.cancel()]
    await asyncio.gather(*ending, return_exceptions=True)
