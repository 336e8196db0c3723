"""OpenAI's Chat Completions API (`POST /v1/chat/completions`, and Azure's paths)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

from support.servers.models.formats.steps import (
    Json,
    Reply,
    ReplyCall,
    Step,
    arguments_text,
    pieces,
    reply_of,
    sse,
    text_of,
)  # fmt: skip

PATHS = ("/v1/chat/completions", "/openai/deployments/{deployment}/chat/completions")


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    return names, [text_of(message["content"]) for message in results]


def stream(step: Step | Reply, number: int) -> Iterator[bytes]:
    """The deltas, the end, and what it cost."""
    reply = reply_of(step, number)
    head = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    yield sse({**head, "choices": [_choice({"role": "assistant", "content": None})]})
    for text in reply.thinking:
        yield sse({**head, "choices": [_choice({"reasoning_content": text})]})
    for text in reply.text:
        yield sse({**head, "choices": [_choice({"content": text})]})
    for delta in _call_deltas(reply):
        yield sse({**head, "choices": [_choice({"tool_calls": [delta]})]})
    yield sse({**head, "choices": [_choice({}, _reason(reply))]})
    yield sse({**head, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def whole(step: Step | Reply, number: int) -> Json:
    """The reply as one JSON value."""
    reply = reply_of(step, number)
    message: Json = {"role": "assistant", "content": "".join(reply.text) or None}
    if reply.thinking:
        message["reasoning_content"] = "".join(reply.thinking)
    if reply.calls:
        message["tool_calls"] = [_call(call, arguments_text(call)) for call in reply.calls]
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
    return {"id": f"chat_{number}", "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


def _choice(delta: Json, reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _call(call: ReplyCall, arguments: str) -> Json:
    members: Json = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return {"id": call.id, **members} if call.id else members


def _call_deltas(reply: Reply) -> Iterator[Json]:
    """Each call's head, then its arguments in pieces: call by call, or in turn."""
    heads = [{"index": index, **_call(call, "")} for index, call in enumerate(reply.calls)]
    tails = [
        [{"index": index, "function": {"arguments": piece}} for piece in pieces(call)]
        for index, call in enumerate(reply.calls)
    ]
    if reply.interleaved:
        yield from heads
        yield from (delta for delta in chain.from_iterable(zip_longest(*tails)) if delta)
    else:
        for head, tail in zip(heads, tails, strict=True):
            yield from (head, *tail)


def _reason(reply: Reply) -> str:
    return reply.reason or ("tool_calls" if reply.calls else "stop")


def _usage(reply: Reply) -> Json:
    total = reply.prompt_tokens + reply.reply_tokens
    return {
        "prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.reply_tokens, "total_tokens": total
    }  # fmt: skip


def refusal(status: int, text: str) -> Json:
    """The body of an error."""
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": str(status)}}
