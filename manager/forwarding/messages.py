"""Reads the JSON-RPC messages in a workspace server's answer, and checks whose response they are.

Also says what counts as a response at all: servers that somebody else started may answer anything.
What is passed on as it comes is not read here but in `relay/writer.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import msgspec

from manager.forwarding.answer import Answer, InterruptedAnswerError, too_large
from manager.routing.json import large_members
from protocol import jsonrpc, sse
from protocol.errors import Reason, Refusal
from protocol.jsonrpc import Notification

LINGER_S: Final = 0.1
"""How long a stream may go on after its response; a connection that was read to its end is used again."""
LARGE: Final = 64 * 1024
"""Bytes from which on it counts how often a message is read."""
_NULL: Final = msgspec.Raw(b"null")
_SPACE: Final = rb"[ \t\r\n]*"
_ID: Final = rb'(-?[0-9]{1,32}|"[^"\x00-\x1f]{1,254}")'
_MEMBERS: Final = (rb'"jsonrpc" : "2\.0" , "id" : ' + _ID, rb'"id" : ' + _ID + rb' , "jsonrpc" : "2\.0"')
_BEGIN: Final = re.compile(
    (rb' \{ (?:%b|%b) , "(?:result|error)" : \{' % _MEMBERS).replace(b" ", _SPACE),
)
"""How a response begins whose id stands before its content."""
_RESULT: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(-?[0-9]{1,32}|"[^"\\\x00-\x1f]{1,254}"),"result":(?=\{)'
)


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The response in an answer: the message, and its members.

    `result` holds the members of a large result, so that nobody has to read it once more; None for any other.
    """

    body: bytes
    members: Mapping[str, msgspec.Raw]
    result: Mapping[str, msgspec.Raw] | None = None


def unusable(status: int) -> Refusal:
    """The refusal for an answer without a response in it."""
    return Refusal(
        Reason.INVALID_UPSTREAM_ANSWER,
        "the workspace server's answer holds no response",
        delivered="unknown",
        details={"httpStatus": status},
    )


def answered(data: bytes, identity: bytes) -> Answered | None:
    """The JSON text as the response to a request, None where it is none.

    Errors that could not name the id (null) count.

    Args:
        identity: the request's id as JSON text.

    Raises:
        InterruptedAnswerError: it is the response to another request.
    """
    found = (_large_result(data) if len(data) >= LARGE else None) or _answered(data)
    if found is not None and (own := jsonrpc.bytes_of(found.members.get("id", _NULL))) != b"null":
        check_id(own, identity)
    return found


def check_id(found: bytes, identity: bytes) -> None:
    """Compare the id of a response with that of the request, both as JSON text.

    Raises:
        InterruptedAnswerError: they differ.
    """
    if found != identity and jsonrpc.id_key(found) != jsonrpc.id_key(identity):
        raise InterruptedAnswerError(
            Refusal(
                Reason.INVALID_UPSTREAM_ANSWER,
                "the workspace server's answer is the response to another request",
                delivered="unknown",
            )
        )


def begins_as_answer(begin: bytes, identity: bytes) -> bool:
    """Whether the beginning of a JSON text shows that it is the response to a request; others must be read.

    Raises:
        InterruptedAnswerError: it is the response to another request.
    """
    found = _BEGIN.match(begin)
    own = None if found is None else found[1] or found[2]
    if own is None or not jsonrpc.is_valid_id(own):
        return False
    check_id(own, identity)
    return True


def begins_as_result(data: bytes) -> bool:
    """Whether the beginning of a JSON text of ours makes it a response; there are others, too."""
    return _RESULT.match(data) is not None


def _large_result(data: bytes) -> Answered | None:
    """A response as most are written: the beginning tells its members, and only the result is read."""
    begin = _RESULT.match(data)
    if begin is None or not data.endswith(b"}") or not jsonrpc.is_valid_id(begin[1]):
        return None
    text = memoryview(data)[begin.end() : -1]
    result = large_members.members_between(data, begin.end(), len(data) - 1)
    members = {"jsonrpc": msgspec.Raw(b'"2.0"'), "id": msgspec.Raw(begin[1]), "result": msgspec.Raw(text)}
    return Answered(data, members, result) if result else None


def _answered(data: bytes) -> Answered | None:
    members = jsonrpc.members_of(data)
    if "method" in members or ("result" in members) == ("error" in members):
        return None
    identity = jsonrpc.bytes_of(members["id"]) if "id" in members else b"null"
    if identity == b"null":
        is_one = "code" in jsonrpc.members_of(members.get("error", b"{}"))
    else:
        version = members.get("jsonrpc", msgspec.Raw(b"null"))
        is_one = jsonrpc.is_valid_id(identity) and jsonrpc.bytes_of(version) == b'"2.0"'
    return Answered(data, members) if is_one else None


def is_response(data: bytes) -> bool:
    """Whether the JSON text answers a request."""
    return _answered(data) is not None


async def messages_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    """The notifications of an answer as they come, each on one line, and last its response.

    What holds no response is refused, and so is what breaks off. Anything else is dropped: no server may send
    requests in an answer.

    Args:
        answer: read to its end, or closed, whatever the outcome.
        limit: largest event in bytes.
    """
    try:
        if answer.is_events:
            async with contextlib.aclosing(_events_of(answer, limit)) as messages:
                async for message in messages:
                    yield message
        else:
            body = await answer.read()
            yield (
                body
                if isinstance(body, Refusal)
                else answered(body, answer.identity) or unusable(answer.status)
            )
    except InterruptedAnswerError as interrupted:
        answer.refuse(interrupted.refusal)
        yield interrupted.refusal
    except sse.EventTooLarge:
        yield too_large(limit)
    finally:
        await answer.aclose()


async def _events_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    decoder = sse.Decoder(limit)
    async with contextlib.aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if (response := answered(event.data, answer.identity)) is not None:
                    answer.answered()
                    await _to_the_end(chunks)
                    yield response
                    return
                if isinstance(jsonrpc.parse(event.data), Notification):
                    yield sse.single_line(event.data)
    yield unusable(answer.status)


async def _to_the_end(chunks: AsyncGenerator[bytes]) -> None:
    with contextlib.suppress(TimeoutError, InterruptedAnswerError):
        async with asyncio.timeout(LINGER_S):
            async for _ in chunks:
                pass


async def response_of(answer: Answer, limit: int) -> bytes | Refusal:
    """The response message of an answer, whether it came as JSON or at the end of an event stream.

    Notifications in front of it are dropped; use this only for clients that cannot take them. All else is as
    in `messages_of`.
    """
    last: bytes | Answered | Refusal = unusable(answer.status)
    async with contextlib.aclosing(messages_of(answer, limit)) as messages:
        async for message in messages:
            last = message
    assert not isinstance(last, bytes)  # noqa: S101  narrows the type: the last one is no notification
    return last.body if isinstance(last, Answered) else last
