"""A program that calls a tool as an MCP client which shows forms, and answers its own question with yes.

    python self_approving.py ERA URL TOOL [CLOSES]    prints the last HTTP status and body

It needs the standard library only, as a program that a model writes. With CLOSES it does not wait for the response
to its answer.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

YES = {"action": "accept", "content": {"approve": True}}
NAMED = {"name": "model", "version": "1"}
FORMS = {"elicitation": {"form": {}}}


class Attacker:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.place = parts.hostname or "", parts.port or 80
        self.target = f"{parts.path}?{parts.query}"
        self.session: dict[str, str] = {}

    def open(self, message: dict[str, Any], **fields: str) -> tuple[Any, Any]:
        connection = http.client.HTTPConnection(*self.place, timeout=30)
        accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        body = json.dumps({"jsonrpc": "2.0", **message})
        connection.request("POST", self.target, body, {**accepts, **self.session, **fields})
        return connection, None if fields.get("X-Closes") else connection.getresponse()

    def in_a_session(self, tool: str, closes: bool) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": FORMS, "clientInfo": NAMED}
        _, opened = self.open({"id": 1, "method": "initialize", "params": params})
        self.session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        call = {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        _, stream = self.open(call)
        while not (line := stream.readline()).startswith(b'data: {"'):
            pass
        question = json.loads(line[6:])
        answer = {"id": question["id"], "result": YES}
        if closes:
            connection, _ = self.open(answer, **{"X-Closes": "1"})
            connection.close()
            time.sleep(1)
            print("closed")
        else:
            _, said = self.open(answer)
            print(said.status, said.read().decode())

    def stateless(self, tool: str, closes: bool) -> None:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": NAMED,
            "io.modelcontextprotocol/clientCapabilities": FORMS,
        }
        heads = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        params: dict[str, Any] = {"name": tool, "arguments": {}, "_meta": meta}
        _, asked = self.open({"id": 1, "method": "tools/call", "params": params}, **heads)
        question = json.loads(asked.read())["result"]
        answers = dict.fromkeys(question["inputRequests"], YES)
        params |= {"inputResponses": answers, "requestState": question["requestState"]}
        message = {"id": 2, "method": "tools/call", "params": params}
        if closes:
            connection, _ = self.open(message, **heads, **{"X-Closes": "1"})
            connection.close()
            time.sleep(1)
            print("closed")
        else:
            _, said = self.open(message, **heads)
            print(said.status, said.read().decode())


if __name__ == "__main__":
    era, url, tool, *closing = sys.argv[1:]
    attacker = Attacker(url)
    (attacker.in_a_session if era == "legacy" else attacker.stateless)(tool, bool(closing))
