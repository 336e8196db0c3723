"""Configures the manager's logging: stderr, its log file, and the last lines for `GET /mcp/log`.

A thread writes the log file, wherever standard error leads. Arguments and results of calls, tokens and
secrets are never logged; session ids only shortened.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from lm_tools_bridge import log
from lm_tools_bridge.log import logger
from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.line_queue import LineQueue

__all__ = ["RECENT", "configure", "copy_to", "logger", "recent_lines", "short", "tell_dropped", "unblocked"]

RECENT: Final = 200
"""How many lines `/mcp/log` shows."""
# Names and reasons are shorter; what a client chose must not fill the log.
_LONGEST_VALUE: Final = 500
_NO_FIELDS: Final = frozenset({"event", "timestamp", "level", "exc_info"})
recent_lines: deque[str] = deque(maxlen=RECENT)
_keep: Callable[[str], object] | None = None


def configure(level: str, style: str, stream: log.Stream | None = None) -> None:
    """Set logging up for the whole process.

    Args:
        level: least level that is written.
        style: `console`, `json`, or `auto` (console when the stream is a terminal).
        stream: where lines go; standard error by default.
    """
    stream = stream or sys.stderr
    console = style == "console" or (style == "auto" and stream.isatty())
    log.configure(level, stream, console=console, observers=[remember, _copied])


@contextmanager
def unblocked(stream: TextIO) -> Iterator[log.Stream]:
    """The stream, written from a thread inside the block: nobody may read it, as after Ctrl-S."""
    descriptor = stream.fileno()  # the stream's own buffer has a lock, which would stop the exit as well

    def write(text: str) -> None:
        rest = text.encode("utf-8", "backslashreplace")
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    lines = LineQueue(write, tell_dropped)
    try:
        yield _Unblocked(stream, lines)
    finally:
        lines.close()


class _Unblocked(msgspec.Struct, frozen=True):
    _stream: TextIO
    _lines: LineQueue

    def write(self, text: str, /) -> None:
        self._lines.put(text)

    def flush(self) -> None:
        """Do nothing: the thread flushes."""

    def isatty(self) -> bool:
        return self._stream.isatty()


def tell_dropped(count: int) -> None:
    """Log that lines were dropped, because nobody took them."""
    logger().warning("log.dropped", lines=count)


def copy_to(keep: Callable[[str], object] | None) -> None:
    """Pass each line, as JSON, to `keep` as well; None ends that."""
    global _keep  # noqa: PLW0603  logging is one for the process, as are `recent_lines`
    _keep = keep


def _copied(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if _keep is not None:
        _keep(log.json_line(event))
    return event


def short(identity: str | None) -> str | None:
    """A session id as it may be shown: eight characters and an ellipsis."""
    return None if identity is None else f"{identity[:8]}…"


def remember(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep the line for `/mcp/log`: `[<time>] [<event>] field=value …`, control characters escaped.

    Lines of libraries, which name their logger, are not kept.
    """
    if "logger" in event:
        return event
    fields = " ".join(f"{key}={_plain(value)}" for key, value in event.items() if key not in _NO_FIELDS)
    recent_lines.append(f"[{event.get('timestamp', '')}] [{_plain(event.get('event'))}] {fields}".rstrip())
    return event


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    escaped = (character if character.isprintable() else repr(character)[1:-1] for character in text)
    return "".join(escaped)[:_LONGEST_VALUE]


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Append all log lines to the file inside the block, which never waits for the disk.

    If standard error is this file already, nothing is written twice.
    """
    if _is_standard_error(path):
        yield
        return
    lines = LineQueue(lambda line: _append(path, line), tell_dropped)
    copy_to(lines.put)
    try:
        yield
    finally:
        copy_to(None)
        lines.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(2), path.stat())
    except OSError:
        return False


def _append(path: Path, line: str) -> None:
    descriptor = file_calls.open_to_append(path)
    try:
        os.write(descriptor, line.encode("utf-8", "backslashreplace") + b"\n")
    finally:
        os.close(descriptor)
