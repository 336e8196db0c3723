"""OpenAI's Chat Completions API (`POST /v1/chat/completions`), streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from support.servers.model_formats.steps import Call, Json, Step, sse, text_of

PATHS = ("/v1/chat/completions",)


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    return names, [text_of(message["content"]) for message in results]


def stream(step: Step, number: int) -> Iterator[bytes]:
    """One delta, its end, and what it cost."""
    if isinstance(step, Call):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        delta, reason = {"role": "assistant", "content": step.text}, "stop"
    head = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
    yield b"data: [DONE]\n\n"
