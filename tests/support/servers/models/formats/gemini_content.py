"""Google's Gemini API (`generateContent` and `streamGenerateContent` of `/v1beta/models`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from support.servers.models.formats.steps import Json, Reply, ReplyCall, Step, reply_of, sse, text_of

PATHS = ("/v1beta/models/{call}",)
SIGNATURE = "c2NyaXB0ZWQ="


def read(body: Json) -> tuple[list[str], list[str]]:
    """The offered tools, and the results so far."""
    declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    parts = [part for content in body["contents"] for part in content.get("parts", [])]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    return [one["name"] for one in declared], [text_of(result) for result in results]


def whole(step: Step | Reply, number: int) -> Json:
    """The answer as one JSON value."""
    reply = reply_of(step, number)
    return _answer(_parts(reply), reply, ends=True)


def stream(step: Step | Reply, number: int) -> Iterator[bytes]:
    """One event a part; the last one says that it is the end."""
    reply = reply_of(step, number)
    parts = _parts(reply) or [{"text": ""}]
    for place, part in enumerate(parts, start=1):
        yield sse(_answer([part], reply, ends=place == len(parts)))


def refusal(status: int, text: str) -> Json:
    """The body of an error."""
    words = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": text, "status": words.get(status, "UNAVAILABLE")}}


def _parts(reply: Reply) -> list[Json]:
    parts: list[Json] = [{"text": text, "thought": True} for text in reply.thinking]
    parts += [{"text": text} for text in reply.text]
    return parts + [_call(one) for one in reply.calls]


def _call(call: ReplyCall) -> Json:
    arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
    members: Json = {"id": call.id} if call.id else {}
    return {"functionCall": {**members, "name": call.name, "args": arguments}, "thoughtSignature": SIGNATURE}


def _answer(parts: list[Json], reply: Reply, *, ends: bool) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if ends:
        candidate["finishReason"] = reply.reason or "STOP"
    usage = {
        "promptTokenCount": reply.prompt_tokens, "candidatesTokenCount": reply.reply_tokens,
        "totalTokenCount": reply.prompt_tokens + reply.reply_tokens,
    }  # fmt: skip
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
