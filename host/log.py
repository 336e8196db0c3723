"""Writes structured log lines with structlog: one shape for both programs, no secrets, and no failures.

An event's name is a fixed tag, such as `handshake.ok`; its fields are keyword arguments.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from host.blocked_import import blocked_import
from host.redaction import HIDDEN, is_secret_name, mask

with blocked_import("rich"):  # where it is installed, 3 MB and 30 ms for coloured tracebacks that nobody uses
    import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


def configure(level: str, stream: TextIO, *, console: bool, observers: Iterable[Processor] = ()) -> None:
    """Set up what `logger` returns, and the standard library's logging, for the whole process.

    Args:
        level: least level that is written.
        stream: where lines go.
        console: coloured text for a terminal instead of JSON.
        observers: see the fields of an event once secrets are hidden.
    """
    writer = LineWriter(stream)
    structlog.configure(
        processors=_processors(console=console, observers=observers),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    adopt_libraries(logger(), tracebacks=True)


def logger(**context: Any) -> Any:
    """A logger with fields that every line of it carries."""
    return structlog.get_logger().bind(**context) if context else structlog.get_logger()


def json_logger() -> Any:
    """A logger that `configure` does not affect: JSON lines on standard error, from level `info`."""
    return structlog.wrap_logger(
        LineWriter(),
        processors=_processors(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )


def adopt_libraries(logger: Any, *, tracebacks: bool) -> None:
    """Write warnings of libraries, which use the standard library's logging, as lines of `logger`.

    Args:
        tracebacks: write them whole; otherwise only the exception's type, because its text may quote values.
    """
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler(logger, tracebacks=tracebacks)]
    root.setLevel(logging.WARNING)


class LineWriter:
    """Writes lines; a closed or full stream drops them instead of stopping the service."""

    dropped = 0

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream`: by default whatever is standard error when a line is written."""
        self._stream = stream

    def msg(self, message: str) -> None:
        """Write one line."""
        stream = self._stream or sys.stderr
        try:
            stream.write(message + "\n")
            stream.flush()
        except (OSError, ValueError):
            type(self).dropped += 1

    log = debug = info = warn = warning = error = critical = exception = fatal = failure = msg


class _LibraryHandler(logging.Handler):
    def __init__(self, logger: Any, *, tracebacks: bool) -> None:
        super().__init__()
        self._logger = logger
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and self._tracebacks:
            fields["exc_info"] = record.exc_info
        elif record.exc_info and record.exc_info[0]:
            fields["fault"] = record.exc_info[0].__name__
        try:
            write = getattr(self._logger, record.levelname.lower(), self._logger.error)
            write(record.getMessage(), **fields)
        except Exception:  # noqa: BLE001  a library's faulty log call must not stop the service
            LineWriter.dropped += 1


def _processors(*, console: bool = False, observers: Iterable[Processor] = ()) -> list[Processor]:
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(serializer=_json)
    )
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _redact,
        *observers,
        structlog.processors.format_exc_info,
        renderer,
        _mask,
    ]


def _redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide every field whose name says that it is confidential."""
    for key in event:
        if is_secret_name(key):
            event[key] = HIDDEN
    return event


def _mask(_logger: WrappedLogger, _method: str, line: Any) -> str:
    return mask(line)


def _json(value: Any, **_: Any) -> str:
    return json.dumps(value, default=str)
