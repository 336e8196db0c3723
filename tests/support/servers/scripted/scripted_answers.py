"""Answers of a workspace server of every kind; every path through the manager must deliver them alike."""

from __future__ import annotations

import json
from typing import Any

from lm_tools_bridge.protocol import names
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Answerer,
    broken_off,
    cut,
    error,
    event,
    fixed,
    result,
    stream,
    trimmed,
    trimmed_event,
)

RESPONSE = b'{"jsonrpc":"2.0","id":%(id)s,"result":{"resultType":"complete","content":[]}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
QUESTION: dict[str, Any] = {
    "resultType": "input_required",
    "inputRequests": {
        "q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
    },
    "requestState": "s",
}
SERVER: dict[str, Any] = {names.META_SERVER: {"name": "s", "version": "1"}}
PLAIN = b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}'
PLAIN_RESULT = result(json.dumps(COMPLETE, separators=(",", ":")).encode())
"""As servers of ours write it."""
ANSWERS: dict[str, Answerer] = {
    "plain": PLAIN_RESULT,
    "plain and signed": result(
        json.dumps({**COMPLETE, "text": '"\u00e9', "_meta": SERVER}, separators=(",", ":")).encode()
    ),
    "trimmed": trimmed({**COMPLETE, "_meta": SERVER}),
    "trimmed and large": trimmed({**COMPLETE, "text": "x" * 300_000, "_meta": SERVER}),
    "small": result(COMPLETE),
    "large": result({**COMPLETE, "text": "x" * 300_000}),
    "spaced": result(b'{ "resultType" : "complete", "content" : [ ], "n" : 1e400 }'),
    "signed": result({**COMPLETE, "structuredContent": {"a": 1}, "_meta": SERVER}),
    "signed and more": result({**COMPLETE, "_meta": {**SERVER, "x": 1}}),
    "structured otherwise": result({**COMPLETE, "structuredContent": [1]}),
    "cached": result({**COMPLETE, "ttlMs": 5, "cacheScope": "public"}),
    "of the older era": result({"content": []}),
    "with a line end": fixed(PLAIN + b"}\n"),
    "with more members": fixed(PLAIN + b',"x":1}'),
    "with the result twice": fixed(PLAIN + b',"result":{"resultType":"complete","a":1}}'),
    "of another status": fixed(PLAIN + b"}", 202),
    "error": error(-32602, "no such tool", {"k": 1}),
    "error with a status": error(-32021, "missing", {"requiredCapabilities": {}}, status=400),
    "asks": result(QUESTION),
    "nothing": fixed(b"", 202),
    "no message": fixed(b"[1]"),
    "no JSON": fixed(b"{", 200),
    "a page": fixed(b"<p>", 502, "text/html"),
    "breaks off": broken_off(b'{"jsonrpc"', 500),
    "stream of one event": stream(event(RESPONSE)),
    "stream of one event, trimmed": stream(trimmed_event({**COMPLETE, "_meta": SERVER})),
    "stream of one event, trimmed and large": stream(
        trimmed_event({**COMPLETE, "text": "x" * 300_000, "_meta": SERVER})
    ),
    "stream, trimmed": stream(event(PROGRESS), trimmed_event({**COMPLETE, "_meta": SERVER})),
    "stream": stream(event(PROGRESS), event(RESPONSE)),
    "stream without an end": cut(event(PROGRESS)),
}
"""By name; the request's id is 7 where it is not asked for."""
