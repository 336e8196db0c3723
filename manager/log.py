"""Configures the manager's logging: lines on stderr, and the last lines in memory for `GET /mcp/log`.

Arguments and results of calls, tokens and secrets are never logged; session ids only shortened.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

from host import log
from host.log import logger

__all__ = ["RECENT", "configure", "logger", "recent_lines", "short"]

RECENT: Final = 200
"""How many lines `/mcp/log` shows."""
_LONGEST_VALUE: Final = 500
recent_lines: deque[str] = deque(maxlen=RECENT)


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Set logging up for the whole process.

    Args:
        level: least level that is written.
        style: `console`, `json`, or `auto` (console when the stream is a terminal).
        stream: where lines go; standard error by default.
    """
    stream = stream or sys.stderr
    console = style == "console" or (style == "auto" and stream.isatty())
    log.configure(level, stream, console=console, observers=[remember])


def short(identity: str | None) -> str | None:
    """A session id as it may be shown: eight characters and an ellipsis."""
    return None if identity is None else f"{identity[:8]}…"


def remember(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep the line for `/mcp/log`: `[<time>] [<event>] field=value …`, control characters escaped.

    Lines of libraries, which name their logger, are not kept.
    """
    if "logger" in event:
        return event
    fields = " ".join(
        f"{key}={_plain(value)}" for key, value in event.items() if key not in {"event", "timestamp", "level"}
    )
    recent_lines.append(f"[{event.get('timestamp', '')}] [{_plain(event.get('event'))}] {fields}".rstrip())
    return event


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    escaped = (character if character.isprintable() else repr(character)[1:-1] for character in text)
    return "".join(escaped)[:_LONGEST_VALUE]
