"""Reads a workspace server's answer to its end when the response message itself is needed."""

from __future__ import annotations

from manager.upstream.forward import Answer, InterruptedAnswerError
from protocol import jsonrpc, sse
from protocol.errors import Reason, Refusal
from protocol.jsonrpc import Response

UNUSABLE = Refusal(
    Reason.INVALID_UPSTREAM_ANSWER, "the workspace server's answer holds no response", delivered="unknown"
)


async def response_of(answer: Answer, limit: int) -> bytes | Refusal:
    """The response message of an answer, whether it came as JSON or at the end of an event stream.

    Notifications in front of it are dropped; use this only for clients that cannot take them.

    Args:
        answer: read to its end, or closed, whatever the outcome.
        limit: largest event in bytes.
    """
    if not answer.is_events:
        return await answer.read()
    decoder = sse.Decoder(limit)
    chunks = answer.chunks()
    try:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if isinstance(jsonrpc.parse(event.data), Response):
                    await answer.aclose("ok")
                    return event.data
    except InterruptedAnswerError as interrupted:
        return interrupted.refusal
    except sse.EventTooLarge:
        return Refusal(Reason.RESPONSE_TOO_LARGE, "response too large", delivered="unknown")
    finally:
        await answer.aclose()
        await chunks.aclose()
    return UNUSABLE
