"""Reads a workspace server's answer to its end when the response message itself is needed.

Also says what counts as a response at all: servers that somebody else started may answer anything (M-100).
"""

from __future__ import annotations

from manager.upstream.forward import Answer, InterruptedAnswerError
from protocol import jsonrpc, sse
from protocol.errors import Reason, Refusal
from protocol.jsonrpc import Response


def unusable(status: int) -> Refusal:
    """The refusal for an answer without a response in it (M-100)."""
    return Refusal(
        Reason.INVALID_UPSTREAM_ANSWER,
        "the workspace server's answer holds no response",
        delivered="unknown",
        details={"httpStatus": status},
    )


def is_response(data: bytes) -> bool:
    """Whether the JSON text answers a request; errors that could not name the id (null) count."""
    if isinstance(jsonrpc.parse(data), Response):
        return True
    members = jsonrpc.members_of(data)
    identity = jsonrpc.bytes_of(members["id"]) if "id" in members else b"null"
    return identity == b"null" and "code" in jsonrpc.members_of(members.get("error", b"{}"))


async def response_of(answer: Answer, limit: int) -> bytes | Refusal:
    """The response message of an answer, whether it came as JSON or at the end of an event stream.

    Notifications in front of it are dropped; use this only for clients that cannot take them. What holds no
    response is refused.

    Args:
        answer: read to its end, or closed, whatever the outcome.
        limit: largest event in bytes.
    """
    if not answer.is_events:
        body = await answer.read()
        return body if isinstance(body, Refusal) or is_response(body) else unusable(answer.status)
    decoder = sse.Decoder(limit)
    chunks = answer.chunks()
    try:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if is_response(event.data):
                    await answer.aclose("ok")
                    return event.data
    except InterruptedAnswerError as interrupted:
        return interrupted.refusal
    except sse.EventTooLarge:
        return Refusal(Reason.RESPONSE_TOO_LARGE, "response too large", delivered="unknown")
    finally:
        await answer.aclose()
        await chunks.aclose()
    return unusable(answer.status)
