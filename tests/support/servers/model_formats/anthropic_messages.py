"""Anthropic's Messages API (`POST /v1/messages`), streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from support.servers.model_formats.steps import Call, Json, Step, sse, text_of

PATHS = ("/v1/messages",)


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    return [tool["name"] for tool in body.get("tools", [])], [text_of(one.get("content")) for one in results]


def stream(step: Step, number: int) -> Iterator[bytes]:
    """One message of one block."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if isinstance(step, Call):
        block: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        reason = "tool_use"
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step.text}
        reason = "end_turn"
    for kind, members in (
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}),
        ("message_stop", {}),
    ):
        yield sse({"type": kind, **members}, kind)
