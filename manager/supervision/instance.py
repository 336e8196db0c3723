"""One running workspace server: its address, identity, connections and call figures.

`supervisor.py` starts and stops the manager's own servers. `registered_servers.py` has those
that users started.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal import launch
from manager import __version__
from manager.logs.log import logger
from manager.routing.state.timings import Timings
from manager.supervision.process import Process
from manager.upstream.failures import Blame, UpstreamFailure
from manager.upstream.pool import Dial, Pool
from manager.upstream.response_head import ResponseHead

Owner = Literal["manager", "external", "remote"]
"""Who runs the server: this manager, another program of the user, or the manager on another host."""
HOST: Final = "127.0.0.1"
# The server listens on this machine and the kernel answers for it: only a full backlog takes longer than 1
# ms.
CONNECT_S: Final = 5.0


@dataclass(slots=True)
class Figures:
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
