"""Names the errors of the tool service: each has a JSON-RPC code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ToolServiceError(Exception):
    """A request that is refused: unknown tool, invalid arguments, or an error reply of a server.

    Attributes:
        code: JSON-RPC error code.
        data: what the error carries besides.
    """

    def __init__(self, message: str, code: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data or {}


class ConnectionLost(Exception):
    """The connection ended before the reply came.

    Attributes:
        delivered: `unknown` if the request may have been executed, `no` if it certainly was not.
    """

    def __init__(self, message: str, delivered: str) -> None:
        super().__init__(message)
        self.delivered = delivered
