"""Requests of ours that a legacy client is to answer: their ids, and the answers that come as POSTs.

It neither decides what is asked (`input_request.py`) nor on which stream a question goes out. It keeps
nothing over a restart: the answer to a question of an earlier manager answers nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import msgspec

from protocol import jsonrpc, names
from protocol.jsonrpc import Response


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
    """One request to the client: the whole `message`, and its `answer`, None when none can come any more."""

    id: str
    message: bytes
    answer: asyncio.Future[Response | None]


class PendingRequests:
    """The questions of one session that are out."""

    def __init__(self) -> None:
        self._out: dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._out)

    def put(self, method: str, params: bytes = b"") -> PendingRequest:
        """A new question, under an id that no other question ever had.

        Args:
            params: its parameters as JSON text, empty for none.
        """
        identity = f"lmtb-{secrets.token_urlsafe(12)}"
        message = {"jsonrpc": "2.0", "id": identity, "method": method}
        body = jsonrpc.dumps(message | ({"params": msgspec.Raw(params)} if params else {}))
        question = PendingRequest(identity, body, asyncio.get_running_loop().create_future())
        self._out[identity] = question
        return question

    def resolve(self, response: Response) -> bool:
        """Take a client's answer; False where it answers nothing that is out in this session."""
        question = self._out.pop(jsonrpc.text_of(response.id) or "", None)
        if question is None or question.answer.done():
            return False
        question.answer.set_result(response)
        return True

    def abandon(self) -> None:
        """Nobody waits for answers any more: the manager stops."""
        for question in self._out.values():
            if not question.answer.done():
                question.answer.set_result(None)

    def withdraw(self, question: PendingRequest) -> bytes | None:
        """Take a question back: the notification that tells the client so, None where it was answered."""
        question.answer.cancel()
        if self._out.pop(question.id, None) is None:
            return None
        return jsonrpc.notification(names.CANCELLED, {"requestId": question.id})
