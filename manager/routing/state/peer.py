"""The client's end of a connection, and the process that has it, as far as it was found."""

from __future__ import annotations

Address = tuple[str, int] | tuple[str, int, int, int]


class ClientProcess:
    """A process of a client on this machine.

    Attributes:
        pid, started: which process it is.
        ended_at: monotonic time when its end was noticed; None while it runs.
    """

    __slots__ = ("ended_at", "pid", "started")

    def __init__(self, pid: int, started: str) -> None:
        self.pid = pid
        self.started = started
        self.ended_at: float | None = None


class Peer:
    """The other end of one connection.

    Attributes:
        ends: our address and the client's.
        is_sought: whether its process was looked for, or is going to be.
        process: its process; None if it is not known, as for a client on another machine.
    """

    __slots__ = ("ends", "is_sought", "process")

    def __init__(self, ends: tuple[Address, Address]) -> None:
        self.ends = ends
        self.is_sought = False
        self.process: ClientProcess | None = None

    def has_ended_since(self, at: float) -> bool:
        """Whether its process was running at this time, and has ended."""
        process = self.process
        return process is not None and process.ended_at is not None and process.ended_at >= at
