"""Logs requests to models for debugging: sizes, times and outcomes, never keys or what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.messages import (  # fmt: skip
    CallPart,
    Message,
    ModelEvent,
    ModelRequest,
    ModelWindow,
    Provider,
    ProviderFailure,
    TextPart,
    Usage,
)
from lm_tools_bridge.agent.providers.text_protocol import asked, window_of
from lm_tools_bridge.machine.line_queue import LineQueue
from lm_tools_bridge.machine.private_files import UnsafePathError, append_line
from lm_tools_bridge.text.redaction import mask

FILE: Final = "agent-debug.log"
VARIABLE: Final = "LMTB_AGENT_DEBUG"
MOST: Final = 1024 * 1024
"""Bytes of the file; one older file is kept."""


def is_wanted(setting: bool, environ: Mapping[str, str]) -> bool:
    """Whether requests are logged, by the setting or the variable."""
    return setting or environ.get(VARIABLE, "0") not in {"", "0"}


class RequestLog:
    """The file, one JSON object a line. Lines are written by a thread; those that cannot be are dropped."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.file = folder / FILE
        self._now = now
        self._lines = LineQueue(self._append, lambda _: None)

    def write(self, **members: Any) -> None:
        """Write one line."""
        line = {"time": self._now().isoformat(timespec="milliseconds"), **members}
        self._lines.put(mask(json.dumps(line)))

    def close(self) -> None:
        """Write what waits, within a second."""
        self._lines.close()

    def _append(self, line: str) -> None:
        with suppress(UnsafePathError):
            append_line(self.file, line, MOST)


class LoggedProvider:
    """A provider whose requests are logged."""

    def __init__(self, inner: Provider, log: RequestLog, clock: Callable[[], float]) -> None:
        self.name = inner.name
        self._inner = inner
        self._log = log
        self._clock = clock

    async def reply(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Provider`."""
        began, first = self._clock(), None
        reply_log = _Seen()
        try:
            async with aclosing(asked(self._inner, request)) as events:
                async for event in events:
                    first = first if first is not None else self._clock() - began
                    reply_log.add(event)
                    yield event
            reply_log.outcome = "completed"
        except ProviderFailure as failure:
            # what follows a colon may quote the server, and the server the request
            reply_log.outcome = f"failed: {failure.cause.partition(':')[0]}"
            raise
        except (asyncio.CancelledError, GeneratorExit):
            reply_log.outcome = "cancelled"
            raise
        except BaseException as fault:
            reply_log.outcome = f"fault: {type(fault).__name__}"  # its text may quote the request
            raise
        finally:
            self._log.write(
                provider=self.name, model=request.model, messages=len(request.messages),
                characters=sum(map(_characters, request.messages)), tools=len(request.tools),
                window=request.context_tokens, first_s=None if first is None else round(first, 3),
                seconds=round(self._clock() - began, 3), **reply_log.members(),
            )  # fmt: skip

    async def context_window(self, model: str) -> ModelWindow | None:
        """See `WindowSource`."""
        return await window_of(self._inner, model)


class _Seen:
    """What arrived of a reply, in numbers."""

    def __init__(self) -> None:
        self.outcome = ""
        self._characters = 0
        self._calls = 0
        self._usage = Usage(None, None)

    def add(self, event: ModelEvent) -> None:
        if isinstance(event, TextPart):
            self._characters += len(event.text)
        elif isinstance(event, CallPart):
            self._calls += 1
        elif isinstance(event, Usage):
            self._usage = event

    def members(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "reply_characters": self._characters,
            "calls": self._calls,
            "prompt_count": self._usage.prompt_tokens,
        }


def _characters(message: Message) -> int:
    result = getattr(message, "result", None)
    return len(result.text if result is not None else getattr(message, "text", ""))
