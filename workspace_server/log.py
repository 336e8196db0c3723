"""JSON lines on standard error: what went wrong in here, for the manager to keep.

Not for tool output, and never for secrets: callers pass fields that they made themselves. Written without the
library that the manager logs with: loading it would take longer than the end of most servers.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec


def info(event: str, **fields: Any) -> None:
    """Something a person may want to know happened; `event` is a fixed word."""
    _write("info", event, fields)


def error(event: str, **fields: Any) -> None:
    """Something failed that should not have; `event` is a fixed word."""
    _write("error", event, fields)


def fault(event: str, exception: BaseException, **fields: Any) -> None:
    """An exception nobody expected: its type and where it was raised; its text may quote values."""
    place = None
    for frame, line in traceback.walk_tb(exception.__traceback__):
        place = f"{frame.f_code.co_filename}:{line}"
    _write("error", event, {"fault": type(exception).__name__, "at": place, **fields})


def _write(level: str, event: str, fields: Mapping[str, Any]) -> None:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = _serialize({**fields, "event": event, "level": level, "timestamp": now})
    with suppress(OSError, ValueError):  # nobody may read any more; that is no reason to fail
        sys.stderr.write(without(line) + "\n")
        sys.stderr.flush()


def _serialize(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


_SHORTEST_SECRET: Final = 6
_SHORTEST_LINE: Final = 8
_hidden: Final[set[str]] = set()
_SECRET: Final = re.compile(
    r"(?i)pass(word|phrase|wd)?$|secret|token|api_?key|authorization|credential|cookie"
)


def redacted(value: Any) -> Any:
    """A JSON value whose members with the name of a secret are hidden."""
    if isinstance(value, dict):
        return {key: "[hidden]" if _SECRET.search(key) else redacted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    return value


def hide(*values: str) -> None:
    """Let these values appear in no line from now on; short ones are too common to be secrets."""
    for value in values:
        _hidden.update(_forms(value))


def hide_members(members: Mapping[str, str]) -> None:
    """`hide` the values whose names are those of secrets."""
    hide(*(value for name, value in members.items() if _SECRET.search(name)))


def without(text: str, values: Iterable[str] = ()) -> str:
    """`text` with all that is hidden, and with these values, replaced."""
    found = _hidden.union(*(_forms(value) for value in values))
    for value in sorted(found, key=len, reverse=True):  # a secret may begin with another
        text = text.replace(value, "[hidden]")
    return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a line: whole, one of its own lines, quoted in JSON or in an address."""
    pieces = {value, *(line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)}
    forms = {form for one in pieces for form in (one, _serialize(one)[1:-1], quote(one), quote(one, safe=""))}
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}


class _Bridge(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[0] if record.exc_info else None
        error(
            "library",
            logger=record.name,
            message=record.getMessage(),
            fault=fault.__name__ if fault else None,
        )


def adopt_libraries() -> None:
    """Let warnings of libraries become lines of ours, without the tracebacks, which may quote values."""
    logging.basicConfig(handlers=[_Bridge()], level=logging.WARNING, force=True)
