"""Structured logging: events to stderr, and the last lines in memory for `GET /mcp/log`.

An event's name is a tag of the form `handshake.ok`; its fields are keyword arguments. Arguments and results
of calls, tokens and secrets are never logged; session ids only shortened.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TextIO

from manager.runtime_tuning.imports import absent

with absent("rich"):  # where it is installed, 3 MB and 30 ms for traces in colours, which nobody asks for
    import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

RECENT: Final = 200
"""How many lines `/mcp/log` shows."""

_SECRET_WORDS: Final = ("secret", "token", "authorization", "cookie", "password", "nonce")
recent_lines: deque[str] = deque(maxlen=RECENT)


def short(identity: str | None) -> str | None:
    """A session id as it may be shown: eight characters and an ellipsis."""
    return None if identity is None else f"{identity[:8]}…"


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank every field whose name says that it is confidential."""
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "[redacted]"
    return event


def remember(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keep the line for `/mcp/log`: `[<time>] [<event>] field=value …`, control characters escaped."""
    fields = " ".join(
        f"{key}={_plain(value)}" for key, value in event.items() if key not in {"event", "timestamp", "level"}
    )
    recent_lines.append(f"[{event.get('timestamp', '')}] [{_plain(event.get('event'))}] {fields}".rstrip())
    return event


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)[
        :500
    ]


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Set logging up for the whole process.

    Args:
        level: least level that is written.
        style: `console`, `json`, or `auto` (console when the stream is a terminal).
        stream: where lines go; standard error by default.
    """
    stream = stream or sys.stderr
    pretty = style == "console" or (style == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    ending: Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if pretty
        else structlog.processors.JSONRenderer(serializer=_json)
    )
    structlog.configure(
        processors=[*shared, remember, structlog.processors.format_exc_info, ending],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=_SafePrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    _catch_foreign(shared, ending, stream)


def _json(value: Any, **_: Any) -> str:
    return json.dumps(value, default=repr)


class _SafePrintLogger:
    """Writes lines; a closed or full stream drops them instead of stopping the service."""

    dropped = 0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        try:
            self._stream.write(message + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            type(self).dropped += 1

    log = debug = info = warn = warning = error = critical = exception = fatal = failure = msg


class _SafeHandler(logging.StreamHandler[TextIO]):
    """The same for the standard library's logging, which would report the failure on the very stream."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the base class's name
        _SafePrintLogger.dropped += 1


class _SafePrintLoggerFactory:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, *_: Any) -> _SafePrintLogger:
        return _SafePrintLogger(self._stream)


def _catch_foreign(shared: list[Processor], ending: Processor, stream: TextIO) -> None:
    """Lines of libraries (aiohttp, asyncio) take the same shape."""
    handler = _SafeHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, ending],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def logger(**context: Any) -> Any:
    """A logger with fields that every line of it carries."""
    return structlog.get_logger().bind(**context) if context else structlog.get_logger()
