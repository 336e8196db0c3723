"""A registered workspace server that answers a call with as many bytes as the call asks for.

Run as `python -m scripts.benchmarks.forwarding.large_answers`; prints its port.
The tools are `json` and `events`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.names import LATEST_MODERN
from scripts.benchmarks.environment.nginx import NONCE

_HEALTH: Final = json.dumps({"ok": True, "nonce": NONCE}).encode()
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"


def answers_with(tool: str, size: int, *, is_stateless: bool) -> bytes:
    """The JSON parameters of a call: the tools `json` and `events` answer with `size` bytes of text."""
    meta = {names.META_VERSION: LATEST_MODERN, names.META_CAPABILITIES: {}}
    params: dict[str, object] = {"name": tool, "arguments": {"size": size}}
    return json.dumps(params | ({"_meta": meta} if is_stateless else {})).encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if b"content-length" in line
                ),
                0,
            )
            body = await reader.readexactly(length)
            kind, answer = (b"application/json", _HEALTH) if head.startswith(b"GET") else _answer(body)
            writer.write(_HEAD % (kind, len(answer)) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def _answer(body: bytes) -> tuple[bytes, bytes]:
    asked = json.loads(body)
    call = asked.get("params", {})
    text = "x" * int(call.get("arguments", {}).get("size", 0))
    result = {"content": [{"type": "text", "text": text}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
    told = json.dumps(answer, separators=(",", ":")).encode()
    if call.get("name") == "events":
        return b"text/event-stream", b"event: message\ndata: %b\n\n" % told
    return b"application/json", told


async def main() -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 25)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
