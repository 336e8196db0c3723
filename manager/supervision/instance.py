"""One running workspace server: its address, identity, connections and call figures.

`supervisor.py` starts and stops the manager's own servers. `registered_servers.py` has those that users
started.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from manager.routing.state.timings import Timings
from manager.supervision.process import Process
from manager.upstream.pool import Pool
from manager.upstream.response import ResponseHead
from protocol import headers, names
from protocol.errors import Refusal
from protocol.internal import launch

Owner = Literal["manager", "external"]
HOST: Final = "127.0.0.1"


@dataclass(slots=True)
class Figures:
    """Call counters and timings of one workspace.

    Attributes:
        tasks: calls that run as MCP tasks, as of the last health answer.
        last_call_at: monotonic seconds.
        last_error: a sentence for users.
        failures: failed calls by reason (`protocol/errors.py`).
    """

    calls: int = 0
    in_flight: int = 0
    streams: int = 0
    tasks: int = 0
    last_call_at: float | None = None
    last_outcome: str | None = None
    last_error: str | None = None
    failures: Counter[str] = field(default_factory=Counter)
    timings: Timings = field(default_factory=Timings)

    @property
    def errors(self) -> int:
        """Number of failed calls."""
        return self.failures.total()

    def failed(self, refusal: Refusal) -> None:
        """Count a failed call."""
        self.failures[refusal.reason.word] += 1
        self.last_error = refusal.message


@dataclass(slots=True)
class Instance:
    """One run of a workspace server. Times are monotonic seconds.

    `health` is the JSON text of the last health answer, `last_ok` its time and `latency_s` its duration.
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
    pool: Pool = field(init=False)
    health: bytes = b"{}"
    last_ok: float | None = None
    latency_s: float | None = None

    def __post_init__(self) -> None:
        self.pool = Pool(self.host, self.port, verify=self.verify, verify_path=names.HEALTH_PATH.encode())

    @property
    def is_alive(self) -> bool:
        """Whether its process runs; True if the process is unknown. Sends no request."""
        return self.process is None or self.process.is_alive

    def verify(self, head: ResponseHead, body: bytes) -> bool:
        """Whether a health answer comes from this instance: it must repeat the nonce."""
        answer = launch.decode_health(body) if head.status == 200 else None
        return answer is not None and answer.ok and answer.nonce == self.nonce

    async def check(self, deadline_s: float, now: float) -> bytes:
        """Request its health on a new connection and keep the answer.

        Returns:
            The health answer's JSON text.

        Raises:
            UpstreamFailure: it did not answer in time, or another process answered.
        """
        _, body = await self.pool.probe(deadline_s)
        self.health, self.last_ok = body, now
        return body

    def credentials(self) -> tuple[bytes, bytes]:
        """The header that every route except health requires."""
        return headers.SECRET.encode(), self.secret.encode()
