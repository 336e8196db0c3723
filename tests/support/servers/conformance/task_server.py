"""An MCP server on the official SDK with slow, asking and failing tools, for the tasks-* scenarios of the suite.

It is a server with `task = true`. The script tools of these scenarios are in `task_tools.py`. A program:
`python tests/support/servers/conformance/task_server.py --stdio [--legacy | --modern]`.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from support.servers.sdk_servers.input_requests import Dialogue, Json
from support.servers.sdk_servers.serving import enveloped, serve_stdio

SLOW_S = 0.6
"""Long enough that a call has become a task."""


def _form(message: str, member: str, kind: str = "string") -> Json:
    schema = {"type": "object", "properties": {member: {"type": kind}}, "required": [member]}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


DIALOGUES = {
    "confirm_delete": Dialogue(lambda _: [{"confirm": _form("Delete it?", "confirm", "boolean")}]),
    "multi_input": Dialogue(lambda _: [{"name": _form("Name?", "name"), "place": _form("Place?", "place")}]),
    "test_tool_with_task": Dialogue(lambda _: [{"user_name": _form("What is your name?", "name")}]),
}
ARGUMENTS: Json = {"type": "object", "properties": {"filename": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": ARGUMENTS} for name in (*DIALOGUES, "protocol_error_job")]


async def _list_tools(ctx: Any, params: Any) -> Json:
    return {"tools": TOOLS}


async def _call_tool(ctx: Any, params: Any) -> Json:
    """`test_tool_with_task` asks before it becomes slow, the others after."""
    from mcp.shared.exceptions import MCPError

    asks_first = params.name == "test_tool_with_task"
    if not asks_first:
        await asyncio.sleep(SLOW_S)
    if params.name == "protocol_error_job":
        raise MCPError(-32603, "The job failed", {"why": "it always does"})
    question, answers = await DIALOGUES[params.name].hold(ctx, params)
    if question is not None:
        return question
    if asks_first:
        await asyncio.sleep(SLOW_S)
    return {"content": [{"type": "text", "text": f"The answers: {answers}"}]}


def _build() -> Any:
    from mcp.server.lowlevel import Server

    handlers: Any = {"on_list_tools": enveloped(_list_tools), "on_call_tool": enveloped(_call_tool)}
    return Server("slow", version="1.0.0", **handlers)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(serve_stdio(_build(), sys.argv[-1].removeprefix("--").replace("stdio", "both")))
