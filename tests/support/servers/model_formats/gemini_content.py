"""Google's Gemini API (`generateContent` and `streamGenerateContent` of `/v1beta/models`)."""

from __future__ import annotations

from collections.abc import Iterator

from support.servers.model_formats.steps import Call, Json, Step, sse, text_of

PATHS = ("/v1beta/models/{call}",)


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    parts = [part for content in body["contents"] for part in content.get("parts", [])]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    return [one["name"] for one in declared], [text_of(result) for result in results]


def whole(step: Step, number: int) -> Json:
    """The answer as one JSON value; a stream has it as its only event."""
    if isinstance(step, Call):
        part: Json = {
            "functionCall": {"id": f"call_{number}", "name": step.tool, "args": step.arguments},
            "thoughtSignature": "c2NyaXB0ZWQ=",
        }
    else:
        part = {"text": step.text}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def stream(step: Step, number: int) -> Iterator[bytes]:
    """One event."""
    yield sse(whole(step, number))
