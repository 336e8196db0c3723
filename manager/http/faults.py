"""How a fault in answering a request is logged: its kind and its place, never its text."""

from __future__ import annotations

import traceback

from manager.log import logger

_log = logger()


def log_fault(fault: BaseException, method: str | None = None) -> None:
    """Log it. Its message may quote a body or a secret: the type and the places must do."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(fault.__traceback__)]
    _log.error("request failed", method=method, error=type(fault).__name__, at=places[-3:])
