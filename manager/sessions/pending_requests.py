"""Tracks requests from the manager to a session's client, and matches the responses that arrive as POSTs.

Nothing survives a restart: a response to a request of an earlier manager matches none.
"""

from __future__ import annotations

import asyncio
import secrets

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Response


class PendingRequest(msgspec.Struct, frozen=True, eq=False):
    """A request to the client.

    Attributes:
        method: its method.
        message: the whole JSON-RPC request.
        answer: the client's response, None if the manager stops first.
    """

    id: str
    method: str
    message: bytes
    answer: asyncio.Future[Response | None]


class PendingRequests:
    """The unanswered requests to the client of one session."""

    def __init__(self) -> None:
        self._by_id: dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def create(self, method: str, params: bytes = b"") -> PendingRequest:
        """Create a request with a unique id.

        Args:
            method: the JSON-RPC method.
            params: the parameters as JSON text, empty for none.
        """
        identity = f"lmtb-{secrets.token_urlsafe(12)}"
        message = {"jsonrpc": "2.0", "id": identity, "method": method}
        body = jsonrpc.dumps(message | ({"params": msgspec.Raw(params)} if params else {}))
        request = PendingRequest(identity, method, body, asyncio.get_running_loop().create_future())
        self._by_id[identity] = request
        return request

    def is_form(self, response: Response) -> bool:
        """Whether a client's response answers a form or a page that was meant for its user."""
        request = self._by_id.get(jsonrpc.text_of(response.id) or "")
        return request is not None and request.method == names.ELICIT

    def resolve(self, response: Response) -> bool:
        """Complete the request that a client's response answers; False if there is none in this session."""
        request = self._by_id.pop(jsonrpc.text_of(response.id) or "", None)
        if request is None or request.answer.done():
            return False
        request.answer.set_result(response)
        return True

    def abandon(self) -> None:
        """Complete all requests with None, because the manager stops."""
        for request in self._by_id.values():
            if not request.answer.done():
                request.answer.set_result(None)

    def cancel(self, request: PendingRequest) -> bytes | None:
        """Cancel a request; returns the notification for the client, None if it had answered."""
        request.answer.cancel()
        if self._by_id.pop(request.id, None) is None:
            return None
        return jsonrpc.notification(names.CANCELLED, {"requestId": request.id})
