"""One running workspace server: its address, identity, connections, and the figures of its calls.

`supervisor.py` starts and stops the manager's own servers. `registered_servers.py` has those that users
started. Durations of calls and of waiting are kept in histograms, which are cheap enough for every call:
recording allocates nothing and needs no lock, since one event loop writes and reads. Times are arguments in
seconds. `manager/admin/status.py` shows the last minutes, `manager/admin/measures.py` everything since the
start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal import launch
from manager import __version__
from manager.log import logger
from manager.supervision.process import Process
from manager.upstream.failures import Blame, UpstreamFailure
from manager.upstream.pool import Dial, Pool
from manager.upstream.response import ResponseHead

BOUNDS: Final = tuple(
    float(f"{digits}e{power}") for power in range(-5, 3) for digits in ("1", "1.5", "2", "3", "5", "7")
)
"""Upper bounds of the buckets, 10 µs to 700 s. One more bucket counts longer durations."""
RECENT_MINUTES: Final = 5
"""Number of minutes that `recent` covers."""


class Histogram:
    """Counts of durations by bucket (`len(BOUNDS) + 1` counts), and the sum of the durations."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration. A negative one adds nothing to the total."""
        if seconds > 0.0:
            self.total += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def copy(self) -> Histogram:
        """An independent copy."""
        twin = Histogram()
        twin.counts, twin.total = self.counts.copy(), self.total
        return twin


class Percentiles(msgspec.Struct, frozen=True):
    """Median and 99th percentile in seconds."""

    p50: float
    p99: float


class RecentCounts(msgspec.Struct, frozen=True):
    """Bucket counts of the last minutes; counts of several workspaces can be added."""

    server: Sequence[int]
    manager: Sequence[int]


class Timings:
    """Timings of the calls of one workspace.

    Attributes:
        server: from sending a call to the end of its response: the workspace server's time.
        manager: the rest of the call except waiting: the manager's own time.
        start: time that calls waited for the workspace server to become ready.
        connection: time that calls waited for a new connection.
    """

    __slots__ = ("_marks", "connection", "manager", "server", "start")

    def __init__(self) -> None:
        self.server = Histogram()
        self.manager = Histogram()
        self.start = Histogram()
        self.connection = Histogram()
        self._marks: deque[RecentCounts] = deque([RecentCounts((), ())], maxlen=RECENT_MINUTES)

    def record_call(self, begun: float, sent: float, came: float, now: float) -> None:
        """Count a call that ended.

        Args:
            begun: when the manager had received it, plus the time it has waited since.
            sent: when it was sent to the workspace server.
            came: when its response had arrived.
            now: when the response was forwarded.
        """
        server, manager = self.server, self.manager
        took, own = came - sent, sent - begun + now - came
        server.total += took  # `add`, inlined for speed
        server.counts[bisect_left(BOUNDS, took)] += 1
        manager.total += own
        manager.counts[bisect_left(BOUNDS, own)] += 1

    def start_minute(self) -> None:
        """Start the next minute."""
        self._marks.append(RecentCounts(self.server.counts.copy(), self.manager.counts.copy()))

    def recent(self) -> RecentCounts:
        """Counts of this minute and the previous ones (`RECENT_MINUTES` in all)."""
        before = self._marks[0]
        return RecentCounts(
            _since(self.server.counts, before.server), _since(self.manager.counts, before.manager)
        )


def sum_counts(parts: Iterable[RecentCounts]) -> RecentCounts:
    """The sums of the counts of several workspaces."""
    listed = list(parts)
    if len(listed) == 1:  # one row of a status with hundreds of them
        return listed[0]
    return RecentCounts(_together([one.server for one in listed]), _together([one.manager for one in listed]))


def percentiles(counts: Sequence[int]) -> Percentiles | None:
    """Estimate percentiles from bucket counts; None if nothing was counted."""
    return Percentiles(_quantile(counts, 0.5), _quantile(counts, 0.99)) if any(counts) else None


def _quantile(counts: Sequence[int], share: float) -> float:
    """Interpolate linearly within a bucket; at most the last bound."""
    left = share * sum(counts)
    for index, (bound, count) in enumerate(zip(BOUNDS, counts, strict=False)):
        if count and left <= count:
            lower = BOUNDS[index - 1] if index else 0.0
            return lower + (bound - lower) * left / count
        left -= count
    return BOUNDS[-1]


def _since(counts: Sequence[int], before: Sequence[int]) -> Sequence[int]:
    return [now - then for now, then in zip(counts, before, strict=True)] if before else counts


def _together(several: Sequence[Sequence[int]]) -> Sequence[int]:
    return [sum(column) for column in zip(*several, strict=True)]


Owner = Literal["manager", "external", "remote"]
"""Who runs the server: this manager, another program of the user, or the manager on another host."""
HOST: Final = "127.0.0.1"
# The server listens on this machine and the kernel answers for it: only a full backlog takes longer than 1
# ms.
CONNECT_S: Final = 5.0


class Figures(msgspec.Struct):
    """Call counters and timings of one workspace.

    Attributes:
        tasks: calls that run as MCP tasks, as of the last health answer.
        last_call_at: monotonic seconds.
        last_error: a sentence for users.
        failures: failed calls by reason (`lm_tools_bridge/protocol/errors.py`).
    """

    calls: int = 0
    in_flight: int = 0
    streams: int = 0
    tasks: int = 0
    last_call_at: float | None = None
    last_outcome: str | None = None
    last_error: str | None = None
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    timings: Timings = msgspec.field(default_factory=Timings)

    @property
    def errors(self) -> int:
        """Number of failed calls."""
        return self.failures.total()

    def failed(self, refusal: Refusal) -> None:
        """Count a failed call."""
        self.failures[refusal.reason.word] += 1
        self.last_error = refusal.message


@dataclass(slots=True, eq=False)
class Instance:
    """One run of a workspace server. Times are monotonic seconds.

    `health` is the JSON text of the last health answer, `last_ok` its time and `latency_s` its duration.
    `dial` replaces connecting to its port, within `connect_s` seconds.
    """

    id: str
    workspace: str
    folders: tuple[str, ...]
    port: int
    nonce: str = field(repr=False)
    secret: str = field(repr=False)
    started_at: float
    owner: Owner = "manager"
    host: str = HOST
    workspace_file: str | None = None
    process: Process | None = None
    pid: int | None = None
    is_adopted: bool = False
    pool: Pool = field(init=False)
    health: bytes = b"{}"
    last_ok: float | None = None
    latency_s: float | None = None
    dial: Dial | None = None
    connect_s: float = CONNECT_S

    def __post_init__(self) -> None:
        self.pool = Pool(
            self.host,
            self.port,
            verify=self.verify,
            verify_path=names.HEALTH_PATH.encode(),
            on_out_of_step=self._report_out_of_step,
            dial=self.dial,
            connect_timeout=self.connect_s,
        )

    @property
    def is_alive(self) -> bool:
        """Whether its process runs; True if the process is unknown. Sends no request."""
        return self.process is None or self.process.is_alive

    def verify(self, head: ResponseHead, body: bytes) -> bool:
        """Whether a health answer comes from this instance: it must repeat the nonce.

        Raises:
            UpstreamFailure: it is this instance, but it reports that it is not healthy.
        """
        answer = launch.decode_health(body)
        if answer is None or answer.nonce != self.nonce:
            return False
        if head.status != 200 or not answer.ok:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "unhealthy")
        return True

    @property
    def version(self) -> str | None:
        """The version of its program, as of the last health answer."""
        answer = launch.decode_health(self.health)
        return None if answer is None else answer.version

    @property
    def is_outdated(self) -> bool:
        """Whether it was adopted from a manager of another version, and runs that version."""
        return self.is_adopted and self.version not in {None, __version__}

    def _report_out_of_step(self) -> None:
        logger().warning(
            "server.out_of_step",
            workspace=self.workspace,
            port=self.port,
            message="an answer came that nobody asked for; no connection is reused for ten minutes",
        )

    async def check(self, deadline_s: float, now: float) -> bytes:
        """Request its health on a new connection and keep the answer.

        Our own servers describe themselves only to a caller that sends their secret. It is sent after the
        server has proved its identity.

        Returns:
            The health answer's JSON text.

        Raises:
            UpstreamFailure: it did not answer in time, or another process answered.
        """
        secret = (self.credentials(),) if self.owner == "manager" else ()
        _, body = await self.pool.probe(deadline_s, secret)
        self.health, self.last_ok = body, now
        return body

    def credentials(self) -> tuple[bytes, bytes]:
        """The header that every route requires. Without it, health tells only the server's identity."""
        return headers.SECRET.encode(), self.secret.encode()
