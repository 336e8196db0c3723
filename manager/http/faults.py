"""Logs exceptions of request handlers: type and places, never the message."""

from __future__ import annotations

import traceback

from manager.logs.log import logger

_log = logger()


def log_fault(fault: BaseException, method: str | None = None) -> None:
    """Log an exception without its message, which may quote a body or a secret."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(fault.__traceback__)]
    _log.error("request failed", method=method, error=type(fault).__name__, at=places[-3:])
