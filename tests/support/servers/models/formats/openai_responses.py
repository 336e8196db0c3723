"""OpenAI's Responses API (`POST /v1/responses`), streamed. A tool in a namespace is named `NAMESPACE.TOOL`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from support.servers.models.formats.steps import Call, Json, Step, sse, text_of

PATHS = ("/v1/responses",)


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    results = [item for item in body["input"] if item.get("type", "").endswith("_call_output")]
    return list(_names(body.get("tools", []))), [text_of(item["output"]) for item in results]


def _names(tools: list[Json], prefix: str = "") -> Iterator[str]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _names(tool["tools"], f"{tool['name']}.")
        else:
            yield prefix + str(tool.get("name", tool["type"]))


def stream(step: Step, number: int) -> Iterator[bytes]:
    """One item: a message or a function call."""
    response: Json = {"id": f"resp_{number}", "object": "response"}
    if isinstance(step, Call):
        namespace, _, name = step.tool.rpartition(".")
        item: Json = {
            "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name,
            "arguments": json.dumps(step.arguments),
        }  # fmt: skip
        if namespace:
            item["namespace"] = namespace
    else:
        text = {"type": "output_text", "text": step.text, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    usage = {
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    }  # fmt: skip
    for kind, members in (
        ("response.created", {"response": {**response, "status": "in_progress"}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {**response, "status": "completed", "usage": usage}}),
    ):
        yield sse({"type": kind, **members}, kind)
