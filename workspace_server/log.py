"""Logs events of a workspace server as JSON lines on standard error, which the manager collects.

Callers pass fields that they made themselves, never tool output. `lm_tools_bridge.text.redaction` says what
is masked.
"""

from __future__ import annotations

import traceback
from typing import Any, Final

from lm_tools_bridge import log

_logger: Final = log.json_logger()


def info(event: str, **fields: Any) -> None:
    """Something a person may want to know happened; `event` is a fixed word."""
    _logger.info(event, **fields)


def error(event: str, **fields: Any) -> None:
    """Something failed that should not have; `event` is a fixed word."""
    _logger.error(event, **fields)


def fault(event: str, exception: BaseException, **fields: Any) -> None:
    """An unexpected exception: its type and where it was raised, without its text, which may quote values."""
    place = None
    for frame, line in traceback.walk_tb(exception.__traceback__):
        place = f"{frame.f_code.co_filename}:{line}"
    _logger.error(event, **{"fault": type(exception).__name__, "at": place, **fields})


def adopt_libraries() -> None:
    """Write warnings of libraries as lines of ours."""
    log.adopt_libraries(_logger, tracebacks=False)
