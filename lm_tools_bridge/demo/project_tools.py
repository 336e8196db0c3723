"""Runs the part of the demo about a project's own tools: trust, a stdio server, script tools, search.

Each sentence is printed after its fact was checked.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp import Client

    from lm_tools_bridge.demo.sandbox import Sandbox

SHELL_S: Final = 30.0
"""A server that was just trusted may take 30 s to start (`start_timeout_s`)."""
QUESTION: Final = "[y/N]"
_LOGBOOK: Final = '''
from mcp.server import MCPServer

server = MCPServer("logbook")
entries: list[str] = []

@server.tool()
def write(entry: str) -> str:
    """Write a line into the harbour's logbook."""
    entries.append(entry)
    return f"{len(entries)} lines in the logbook"

server.run()
'''
_TIDE: Final = """import lmtb_tool

hour = lmtb_tool.get_int("hour")
lmtb_tool.return_string("{}" if hour % 12 < 6 else "flood")
"""
_TOML: Final = """description = "Tells whether the water rises or falls at an hour."
keywords = ["sea", "moon"]
script = "tide.py"
visibility = "{}"

[parameters.hour]
type = "integer"
required = true
"""


class ProjectToolsTour:
    """The steps about a project's own tools, in order.

    Args:
        client: a session bound to the project harbour.
        sandbox: the temporary projects and their manager.
        tell: prints a sentence.
        quote: prints the output of a program.
    """

    def __init__(
        self, client: Client, sandbox: Sandbox, tell: Callable[[str], None], quote: Callable[[str], None]
    ) -> None:
        self._client = client
        self._sandbox = sandbox
        self._tell = tell
        self._quote = quote
        self._tools = sandbox.user_tools / "tide"

    async def run(self) -> None:
        """Run all steps. Raises AssertionError if a fact does not hold."""
        await self._show_untrusted_server()
        await self._show_trusted_server()
        await self._show_live_edit()
        await self._show_search()

    async def _show_untrusted_server(self) -> None:
        project = self._sandbox.project("harbour")
        (project / "logbook.py").write_text(_LOGBOOK, encoding="utf-8")
        entry = {"command": sys.executable, "args": ["logbook.py"]}
        (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"logbook": entry}}), encoding="utf-8")
        names = await self._list_names()
        _check("logbook__write" not in names, f"the list has {names}")
        self._tell(
            "harbour gets a .mcp.json that names a stdio server. Nothing of it runs: nobody trusted it."
        )

    async def _show_trusted_server(self) -> None:
        screen_text = self._sandbox.answer_prompt(
            ["trust", str(self._sandbox.project("harbour"))], QUESTION, "y\n"
        )
        _check(QUESTION in screen_text and "logbook.py" in screen_text, screen_text)
        self._quote(f"$ lmtb trust {self._sandbox.project('harbour')}\n{screen_text}")
        self._tell("A person looked at it and said yes, for exactly this content.")
        await self._wait_for_tool("logbook__write")
        answers = [await self._call("logbook__write", {"entry": entry}) for entry in ("fog", "fog, still")]
        _check(answers[1] == "2 lines in the logbook", str(answers))
        self._tell(f"The list has logbook__write now. One process serves every client: {answers[1]}.")

    async def _show_live_edit(self) -> None:
        self._tools.mkdir(parents=True)
        (self._tools / "tool.toml").write_text(_TOML.format("native"), encoding="utf-8")
        self._write("ebb")
        first = await self._call("tide", {"hour": 3})
        _check(first == "ebb", first)
        self._tell(f"A folder with a tool.toml is a tool: tide answers {first!r} at 3 o'clock.")
        self._write("the water falls")
        second = await self._call("tide", {"hour": 3})
        _check(second == "the water falls", second)
        self._tell(f"The script is edited; the very next call answers {second!r}.")

    async def _show_search(self) -> None:
        (self._tools / "tool.toml").write_text(_TOML.format("ondemand"), encoding="utf-8")
        names = await self._list_names()
        _check("tide" not in names and "tool_search" in names, f"the list has {names}")
        result = await self._client.call_tool("tool_search", {"query": "mooon"})
        hits = (result.structured_content or {}).get("results", [])
        _check(bool(hits) and hits[0]["name"] == "tide", str(hits))
        self._tell(
            'Its visibility becomes "ondemand": it leaves the list, and tool_search finds it for "mooon".'
        )
        answer = await self._call("execute_tool", {"name": "tide", "arguments": {"hour": 9}})
        _check(answer == "flood", answer)
        self._tell(f"execute_tool runs it: {answer!r} at 9 o'clock.")

    def _write(self, ebb: str) -> None:
        (self._tools / "tide.py").write_text(_TIDE.format(ebb), encoding="utf-8")

    async def _wait_for_tool(self, name: str) -> None:
        """Wait until a tool is listed, because a server that was just trusted is still starting."""
        deadline = time.monotonic() + SHELL_S
        while name not in (names := await self._list_names()):
            _check(time.monotonic() < deadline, f"the list has {names}")
            await asyncio.sleep(0.1)

    async def _list_names(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools(cache_mode="refresh")).tools]

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._client.call_tool(name, arguments)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        _check(not result.is_error, text)
        return text


def _check(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
