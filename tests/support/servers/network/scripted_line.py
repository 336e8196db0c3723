"""Lines to other hosts without a process: each opens at once, and is cut when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lm_tools_bridge.remote_hosts.tunnel.greeting import PROTOCOL, Greeting

if TYPE_CHECKING:
    from lm_tools_bridge.remote_hosts.line_failures import LineFailure
    from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd


class ScriptedLine:
    """One line."""

    pid = 1
    why = "cut"
    greeting = Greeting(PROTOCOL, "1")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.carrier = SimpleNamespace(
            is_open=True, heard_at=0.0, latency_s=None, stream_count=0, ping=lambda: None, close=self.close
        )

    def close(self, why: str = "closed") -> None:
        self.carrier.is_open = False
        self.ended.set()

    def said(self) -> list[str]:
        return []

    async def reap(self) -> None:
        """There is no process."""


class ScriptedLines:
    """Opens lines.

    Attributes:
        commands: by which lines were opened, in order.
        cuts_at_once: whether each line is cut as soon as it is open.
        hangs: whether attempts never end.
        failure: why no line opens; None if they open.
    """

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []
        self.lines: list[ScriptedLine] = []
        self.cuts_at_once = False
        self.hangs = False
        self.failure: LineFailure | None = None

    async def open_line(
        self, command: Sequence[str], environ: Mapping[str, str], **_: Any
    ) -> NearEnd | LineFailure:
        """Open a line, as `near_end.open_line` does."""
        self.commands.append(command)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            return self.failure
        line = ScriptedLine()
        self.lines.append(line)
        if self.cuts_at_once:
            asyncio.get_running_loop().call_soon(line.close)
        return cast("NearEnd", line)
