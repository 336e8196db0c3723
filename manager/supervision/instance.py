"""One running workspace server as the manager sees it: address, identity, connections and figures.

Whether it should run at all is `supervisor.py` (for servers of ours) or `registered_servers.py` (for servers
that somebody else started).
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
    """What happened to the calls of one workspace. `last_error` is a sentence for a person.

    `failures` counts the reasons (`protocol/errors.py`) why calls failed. `tasks` is how many calls went on
    without their clients when the server's health was asked last.
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
        """How many calls failed."""
        return self.failures.total()

    def failed(self, refusal: Refusal) -> None:
        """Count a call that failed."""
        self.failures[refusal.reason.word] += 1
        self.last_error = refusal.message


@dataclass(slots=True)
class Instance:
    """One run of a workspace server. Times are monotonic seconds.

    `health` is the last health answer's JSON text, `last_ok` when it came, `latency_s` how long it took.
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
        """Whether its process still runs, as far as can be told without asking over the network."""
        return self.process is None or self.process.is_alive

    def verify(self, head: ResponseHead, body: bytes) -> bool:
        """Whether a health answer comes from this very instance: the nonce is repeated."""
        answer = launch.decode_health(body) if head.status == 200 else None
        return answer is not None and answer.ok and answer.nonce == self.nonce

    async def check(self, deadline_s: float, now: float) -> bytes:
        """Ask for its health on a fresh connection and keep the answer.

        Returns:
            The health answer's JSON text.

        Raises:
            UpstreamFailure: it did not answer in time, or somebody else answered.
        """
        _, body = await self.pool.probe(deadline_s)
        self.health, self.last_ok = body, now
        return body

    def credentials(self) -> tuple[bytes, bytes]:
        """The header that opens every route but health."""
        return headers.SECRET.encode(), self.secret.encode()
