"""OpenAI's Responses API (`POST /v1/responses`), streamed. A tool in a namespace is named `NAMESPACE.TOOL`.

Agents that defer tools list few of them: the model finds the others with `tool_search` (its result has their
definitions, and they count as offered from then on), or writes JavaScript for `functions.exec`, the argument
`input`, in which all are functions. Such an agent sends its tools as an item of the input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from support.servers.models.formats.steps import Call, Json, Step, sse, text_of

PATHS = ("/v1/responses",)
_FOUND = "tool_search_output"
_HAVE_TOOLS = {"additional_tools", _FOUND}


def _searching(call: Call) -> Json:
    return {
        "type": "tool_search_call",
        "status": "completed",
        "execution": "client",
        "arguments": call.arguments,
    }


def _running(call: Call) -> Json:
    return {
        "type": "custom_tool_call",
        "status": "completed",
        "namespace": "functions",
        "name": "exec",
        "input": call.arguments["input"],
    }


_SPECIAL: dict[str, Callable[[Call], Json]] = {"tool_search": _searching, "functions.exec": _running}


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    items = [item for item in body["input"] if isinstance(item, dict)]
    later = [item["tools"] for item in items if item.get("type") in _HAVE_TOOLS]
    tools = [name for listed in (body.get("tools", []), *later) for name in _names(listed)]
    return tools, [_result(item) for item in items if str(item.get("type")).endswith("_output")]


def _result(item: Json) -> str:
    """The text of a result; that of a search is the definitions that it found."""
    return json.dumps(item["tools"]) if item["type"] == _FOUND else text_of(item["output"])


def _names(tools: list[Json], prefix: str = "") -> Iterator[str]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _names(tool["tools"], f"{tool['name']}.")
        else:
            yield prefix + str(tool.get("name", tool["type"]))


def stream(step: Step, number: int) -> Iterator[bytes]:
    """One item: a message or a function call."""
    response: Json = {"id": f"resp_{number}", "object": "response"}
    if isinstance(step, Call) and step.tool in _SPECIAL:
        item: Json = {**_SPECIAL[step.tool](step), "id": f"ct_{number}", "call_id": f"call_{number}"}
    elif isinstance(step, Call):
        namespace, _, name = step.tool.rpartition(".")
        item = {
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
