"""One request to a workspace server, with its head, and its response."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lm_tools_bridge.http_server.parsing.head_reader import ReadHead
from lm_tools_bridge.http_server.request import BaseRequest, ResponseConnection
from lm_tools_bridge.http_server.responses.response_head import fixed_lines
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from workspace_server.http.head_reader import ManagerHead, trace_of


class HttpRequest(BaseRequest):
    """A request and its response.

    Attributes:
        head: of the request.
        is_known: whether an equal head was received before.
    """

    __slots__ = ("_raw_head", "head", "is_known")

    fixed_lines = staticmethod(fixed_lines(()))
    has_date = False

    def __init__(
        self, connection: ResponseConnection, read: ReadHead[ManagerHead], raw_head: bytes, body: bytes
    ) -> None:
        super().__init__(connection, read.head.framing, body)
        self.head = read.head
        self.is_known = read.is_known
        self._raw_head = raw_head

    @property
    def trace(self) -> str:
        """The trace context that the manager made for it; empty for none."""
        return trace_of(self._raw_head)


@lru_cache(maxsize=64)
def trim_fields(trim: ResultTrim | None) -> Mapping[str, str]:
    """The header field that says what of a result clients with sessions do not get."""
    return {} if trim is None else {headers.RESULT_TRIM: trim.value}
