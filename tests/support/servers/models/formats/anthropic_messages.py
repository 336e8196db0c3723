"""Anthropic's Messages API (`POST /v1/messages`)."""

from __future__ import annotations

from collections.abc import Iterator

from support.servers.models.formats.steps import Json, Reply, ReplyCall, Step, pieces, reply_of, sse, text_of

PATHS = ("/v1/messages",)


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    return [tool["name"] for tool in body.get("tools", [])], [text_of(one.get("content")) for one in results]


def stream(step: Step | Reply, number: int) -> Iterator[bytes]:
    """One message: thinking, text, and the calls, each a block."""
    reply = reply_of(step, number, "toolu")
    usage = {"input_tokens": reply.prompt_tokens, "output_tokens": 1}
    start = {**_message(number), "content": [], "stop_reason": None, "usage": usage}
    yield _event("message_start", message=start)
    yield _event("ping")
    blocks: list[tuple[Json, list[Json]]] = []
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": text} for text in reply.thinking]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.text or not reply.calls:
        blocks.append(
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in reply.text])
        )
    for one in reply.calls:
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(one))]
        blocks.append((_call(one, {}), parts))
    for index, (block, deltas) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": _reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": reply.reply_tokens})
    yield _event("message_stop")


def whole(step: Step | Reply, number: int) -> Json:
    """The message as one JSON value."""
    reply = reply_of(step, number, "toolu")
    content: list[Json] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": "".join(reply.thinking), "signature": ""})
    if reply.text:
        content.append({"type": "text", "text": "".join(reply.text)})
    content += [_call(one, one.arguments) for one in reply.calls]
    usage = {"input_tokens": reply.prompt_tokens, "output_tokens": reply.reply_tokens}
    return {**_message(number), "content": content, "stop_reason": _reason(reply), "usage": usage}


def refusal(status: int, text: str) -> Json:
    """The body of an error."""
    kinds = {
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": text}}


def _message(number: int) -> Json:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "stop_sequence": None,
    }


def _call(call: ReplyCall, arguments: Json | str) -> Json:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _event(kind: str, **members: object) -> bytes:
    return sse({"type": kind, **members}, kind)


def _reason(reply: Reply) -> str:
    return reply.reason or ("tool_use" if reply.calls else "end_turn")
