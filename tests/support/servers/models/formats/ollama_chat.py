"""Ollama's native API (`POST /api/chat`), and how its context window cuts what a model sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from support.servers.models.formats.steps import Json, Reply, ReplyCall, Step, reply_of, text_of

PATHS = ("/api/chat",)
DEFAULT_WINDOW = 4096
CHARACTERS_A_TOKEN = 4


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    return names, [text_of(message["content"]) for message in results]


def seen(body: Json) -> str:
    """What the model sees: system prompt, tools and messages, without what is too much for the window.

    As at the real server the beginning is lost, and nothing says so.
    """
    system = [one["content"] for one in body["messages"] if one["role"] == "system"]
    rest = [json.dumps(one) for one in body["messages"] if one["role"] != "system"]
    prompt = "\n".join([*system, *(json.dumps(tool) for tool in body.get("tools", [])), *rest])
    window = int(body.get("options", {}).get("num_ctx", DEFAULT_WINDOW))
    return prompt[max(0, len(prompt) - window * CHARACTERS_A_TOKEN) :]


def counted(step: Step | Reply, body: Json, number: int) -> Reply:
    """The reply with the number of tokens that the model saw."""
    return replace(reply_of(step, number), prompt_tokens=-(-len(seen(body)) // CHARACTERS_A_TOKEN))


def stream(step: Step | Reply, number: int) -> Iterator[bytes]:
    """A line for each piece, one with the calls, and the end with what it cost."""
    reply = reply_of(step, number)
    for text in reply.thinking:
        yield _line({"role": "assistant", "content": "", "thinking": text})
    for text in reply.text:
        yield _line({"role": "assistant", "content": text})
    for one in reply.calls:
        yield _line({"role": "assistant", "content": "", "tool_calls": [_call(one)]})
    yield _line({"role": "assistant", "content": ""}, **_end(reply))


def whole(step: Step | Reply, number: int) -> Json:
    """The reply as one JSON value."""
    reply = reply_of(step, number)
    message: Json = {"role": "assistant", "content": "".join(reply.text)}
    if reply.thinking:
        message["thinking"] = "".join(reply.thinking)
    if reply.calls:
        message["tool_calls"] = [_call(one) for one in reply.calls]
    return {"model": "scripted", "created_at": "2026-01-01T00:00:00Z", "message": message, **_end(reply)}


def refusal(_status: int, text: str) -> Json:
    """The body of an error."""
    return {"error": text}


def _line(message: Json, **members: object) -> bytes:
    value = {
        "model": "scripted",
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": False,
        **members,
    }
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _call(call: ReplyCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "function": function} if call.id else {"function": function}


def _end(reply: Reply) -> Json:
    return {
        "done": True, "done_reason": reply.reason or "stop", "prompt_eval_count": reply.prompt_tokens,
        "eval_count": reply.reply_tokens,
    }  # fmt: skip
