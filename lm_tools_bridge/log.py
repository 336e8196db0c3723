"""Writes structured log lines with structlog: one shape for both programs, no secrets, and no failures.

An event's name is a fixed tag, such as `handshake.ok`; its fields are keyword arguments.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from lm_tools_bridge.machine.blocked_import import blocked_import
from lm_tools_bridge.terminal.screen import has_colour
from lm_tools_bridge.text.redaction import HIDDEN, is_secret_name, mask

with blocked_import("rich"):  # where it is installed, 3 MB and 30 ms for coloured tracebacks that nobody uses
    import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> object:
        """Pass on what was written."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


def configure(level: str, stream: Stream, *, console: bool, observers: Iterable[Processor] = ()) -> None:
    """Set up what `logger` returns, and the standard library's logging, for the whole process.

    Args:
        level: least level that is written; with `debug` a terminal gets tracebacks, too.
        stream: where lines go.
        console: text for people instead of JSON, coloured on a terminal.
        observers: see the fields of an event once secrets are hidden.
    """
    writer = LineWriter(stream)
    structlog.configure(
        processors=_processors(
            _renderer(stream) if console else _JSON_LINES,
            [*observers, *([_without_traceback] if stream.isatty() and level.upper() != "DEBUG" else [])],
        ),
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
        processors=_processors(_JSON_LINES),
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

    def __init__(self, stream: Stream | None = None) -> None:
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
            fields["why"] = _sentence(record.exc_info[1])
            fields["exc_info"] = record.exc_info
        elif record.exc_info and record.exc_info[0]:
            fields["fault"] = record.exc_info[0].__name__
        try:
            write = getattr(self._logger, record.levelname.lower(), self._logger.error)
            write(record.getMessage(), **fields)
        except Exception:  # noqa: BLE001  a library's faulty log call must not stop the service
            LineWriter.dropped += 1


def json_line(event: EventDict) -> str:
    """An event as `configure` writes it without a terminal, for observers that keep lines."""
    whole = structlog.processors.format_exc_info(None, "", dict(event))
    return mask(_json(whole))


def _renderer(stream: Stream) -> Processor:
    """Lines for people, in colours if the terminal is to have them."""
    return structlog.dev.ConsoleRenderer(
        colors=has_colour(stream), exception_formatter=structlog.dev.plain_traceback
    )


def _processors(renderer: Processor, observers: Iterable[Processor] = ()) -> list[Processor]:
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


def _sentence(fault: BaseException | None) -> str:
    return f"{type(fault).__name__}: {fault}".removesuffix(": ")


def _without_traceback(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The log file, an observer, has the traceback; a person at a terminal needs the sentence."""
    event.pop("exc_info", None)
    return event


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


_JSON_LINES: Final[Processor] = structlog.processors.JSONRenderer(serializer=_json)
