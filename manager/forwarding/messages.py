"""Reads the JSON-RPC messages in a workspace server's answer, and checks whose response they are.

It also decides what counts as a response, because a registered server may answer anything.
`relay/writer.py` relays answers that need not be read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import msgspec

from lm_tools_bridge.http_server.byte_budget import SMALL
from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import Notification
from manager.forwarding.answer import Answer, InterruptedAnswerError, too_large
from manager.forwarding.forwarded_call import facts_of
from manager.routing.json.scan import members_between

LARGE: Final = 64 * 1024
"""Bytes from which reading a message twice is too slow."""
_NULL: Final = msgspec.Raw(b"null")
_SPACE: Final = rb"[ \t\r\n]*"
_ID: Final = rb'(-?[0-9]{1,32}|"[^"\x00-\x1f]{1,254}")'
_MEMBERS: Final = (rb'"jsonrpc" : "2\.0" , "id" : ' + _ID, rb'"id" : ' + _ID + rb' , "jsonrpc" : "2\.0"')
_BEGIN: Final = re.compile(
    (rb' \{ (?:%b|%b) , "(?:result|error)" : \{' % _MEMBERS).replace(b" ", _SPACE),
)
"""The beginning of a response whose id precedes its content."""
_RESULT: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(-?[0-9]{1,32}|"[^"\\\x00-\x1f]{1,254}"),"result":(?=\{)'
)


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The response in an answer.

    Attributes:
        body: The whole message.
        members: Its members.
        result: The members of a large result, so that it is parsed once only; None for any other response.
    """

    body: bytes
    members: Mapping[str, msgspec.Raw]
    result: Mapping[str, msgspec.Raw] | None = None


def unusable(status: int) -> Refusal:
    """The refusal for an answer that contains no response."""
    return Refusal(
        Reason.INVALID_UPSTREAM_ANSWER,
        "the workspace server's answer holds no response",
        delivered="unknown",
        details={"httpStatus": status},
    )


def answered(data: bytes, identity: bytes) -> Answered | None:
    """Parse a JSON text as the response to a request.

    Errors with the id null or without an id are accepted as the response.

    Args:
        data: The JSON text.
        identity: The request's id as JSON text.

    Returns:
        None if the text is not a response.

    Raises:
        InterruptedAnswerError: The text is the response to another request.
    """
    found = (_large_result(data) if len(data) >= LARGE else None) or _answered(data)
    if found is not None and (response_id := jsonrpc.bytes_of(found.members.get("id", _NULL))) != b"null":
        check_id(response_id, identity)
    return found


def check_id(found: bytes, identity: bytes) -> None:
    """Compare the id of a response with that of the request, both as JSON text.

    Raises:
        InterruptedAnswerError: The ids differ.
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
    """Whether the first bytes of a JSON text show that it is the response to a request.

    If False, the text must be read to decide.

    Raises:
        InterruptedAnswerError: The text is the response to another request.
    """
    found = _BEGIN.match(begin)
    response_id = None if found is None else found[1] or found[2]
    if response_id is None or not jsonrpc.is_valid_id(response_id):
        return False
    check_id(response_id, identity)
    return True


def begins_as_result(data: bytes) -> bool:
    """Whether a JSON text begins like a result as our own servers write it.

    False does not mean that the text is no response.
    """
    return _RESULT.match(data) is not None


def _large_result(data: bytes) -> Answered | None:
    """Parse a response of the usual form, of which only the result has to be parsed."""
    begin = _RESULT.match(data)
    if begin is None or not data.endswith(b"}") or not jsonrpc.is_valid_id(begin[1]):
        return None
    text = memoryview(data)[begin.end() : -1]
    result = members_between(data, begin.end(), len(data) - 1)
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
    """Whether a JSON text is a JSON-RPC response."""
    return _answered(data) is not None


async def messages_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    """Yield the notifications of an answer as they arrive, each on one line, and finally its response.

    The last item is a refusal if the answer contains no response or breaks off. Other messages are dropped,
    because a server must not send requests in an answer.

    Args:
        answer: Read to its end, or closed, in any case.
        limit: Largest event in bytes.
    """
    try:
        if answer.is_events:
            async with contextlib.aclosing(_events_of(answer, limit)) as messages:
                async for message in messages:
                    yield message
        else:
            yield await _whole_response(answer)
    except InterruptedAnswerError as interrupted:
        answer.refuse(interrupted.refusal)
        yield interrupted.refusal
    except sse.EventTooLarge:
        yield too_large(limit)
    finally:
        await answer.aclose()


async def _whole_response(answer: Answer) -> Answered | Refusal:
    body = await answer.read()
    if isinstance(body, Refusal):
        return body
    response = answered(body, answer.identity)
    if response is None:
        return _no_response(answer)
    answer.answered(facts_of(response.body, response.members, response.result))
    return response


async def _events_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    decoder = sse.Decoder(limit)
    async with contextlib.aclosing(answer.chunks()) as chunks:
        try:
            async for chunk in chunks:
                events = decoder.feed(chunk)
                if decoder.pending > SMALL:
                    await answer.make_room(limit)
                for event in events:
                    if (response := answered(event.data, answer.identity)) is not None:
                        answer.answered(facts_of(response.body, response.members, response.result))
                        answer.keep_room(len(event.data))
                        await _drain(chunks)
                        yield response
                        return
                    if isinstance(jsonrpc.parse(event.data), Notification):
                        yield sse.single_line(event.data)
        except sse.EventTooLarge:
            answer.fail(too_large(limit))  # before the end of this block ends the call as cancelled
            raise
    yield _no_response(answer)


def _no_response(answer: Answer) -> Refusal:
    refusal = unusable(answer.status)
    answer.fail(refusal)
    return refusal


async def _drain(chunks: AsyncGenerator[bytes]) -> None:
    with contextlib.suppress(InterruptedAnswerError):
        async for _ in chunks:
            pass


async def response_of(answer: Answer, limit: int) -> bytes | Refusal:
    """The response message of an answer, which is JSON or an event stream.

    Notifications before it are dropped, so use this only for clients that cannot receive them. Otherwise it
    works like `messages_of`.
    """
    last: bytes | Answered | Refusal = unusable(answer.status)
    async with contextlib.aclosing(messages_of(answer, limit)) as messages:
        async for message in messages:
            last = message
    assert not isinstance(last, bytes)  # noqa: S101  narrows the type: the last item is never a notification
    return last.body if isinstance(last, Answered) else last
