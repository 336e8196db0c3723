"""The verb demo: a narrated tour with a real manager, real workspace servers and the official MCP client.

Each sentence is printed after its fact was checked. `sandbox.py` provides the projects and the manager.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from lm_tools_bridge.demo.agent_tour import show_agent
from lm_tools_bridge.demo.code_tour import PROJECT as SHIPYARD
from lm_tools_bridge.demo.code_tour import CodeTour
from lm_tools_bridge.demo.project_tools import ProjectToolsTour
from lm_tools_bridge.demo.sandbox import Sandbox
from lm_tools_bridge.protocol.names import CALL_TOOL, HANDSHAKE, LATEST_LEGACY, LATEST_MODERN
from lm_tools_bridge.terminal.command_line import Failure, examples, is_json, json_option, print_line, say
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.quantities import latency
from manager.cli.output.overview import workspace_table
from manager.status_reading import merged_workspaces

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult


def show_record(sandbox: Sandbox, address: str, tell: Callable[[str], None]) -> None:
    """Show the last recorded call of the tour, and where the page is.

    Args:
        address: the URL of the MCP endpoint.

    Raises:
        RuntimeError: no call is recorded.
    """
    done = sandbox.run(["calls", "-n", "1", "--json"], sandbox.folder)
    calls = json.loads(done.stdout or "{}").get("calls")
    if not calls:
        raise RuntimeError(f"no call is recorded: {done.stdout}{done.stderr}")
    call = calls[0]
    what = f"{call['tool']} of {call['client']} in {call['project']}, {latency(call['took'] / 1000)}"
    tell(f"Every call is on record. The last one: {what}, {call['outcome']} (lmtb calls).")
    tell(f"In a browser, the page shows all of this: {address.removesuffix('mcp')} (lmtb ui).")


LIMIT_S: Final = 120.0
"""Longest the whole tour may take."""


class TourError(Exception):
    """A fact of the tour does not hold."""


class Narrator:
    """Prints sentences with the time since the previous one."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def tell(self, text: str) -> None:
        """Print a sentence."""
        now = time.perf_counter()
        spent = (now - self._last) * 1000
        if is_json():
            print_line({"text": text, "ms": round(spent)})
        say(f"{spent:7.0f} ms  {printable(text)}")
        self._last = time.perf_counter()


@click.command(epilog=examples("lmtb demo"))
@click.option("--keep", is_flag=True, help="Keep the temporary folder, to look around in it.")
@json_option
def demo(keep: bool, as_json: bool) -> None:
    """Show everything on sample workspaces, then tidy up.

    Uses a temporary folder and a manager of its own; yours is not touched. Exit code 0 only if every step did
    what it says.
    """
    if sys.platform == "win32":
        raise Failure("the demo needs signals that Windows does not have", "see the documentation instead")
    narrator = Narrator()
    sandbox = Sandbox()
    try:
        _run_tour(sandbox, narrator)
    except Exception as error:
        for line in sandbox.last_log_lines():
            say(f"  manager: {line}", err=True)
        why = "; ".join(_reasons(error))
        raise Failure(f"the demo failed: {why}", "look closer with: lmtb doctor; lmtb demo --keep") from error
    finally:
        sandbox.close(keep_folder=keep)
        if keep:
            say(f"kept: {sandbox.folder}")
    if as_json:
        print_line({"ok": True, "folder": str(sandbox.folder) if keep else None})
    say("", "All of it worked. Your turn: lmtb up")


def _run_tour(sandbox: Sandbox, narrator: Narrator) -> None:
    narrator.tell("Two sample projects are made, harbour and orchard, each with a .git folder.")
    address = sandbox.start()
    narrator.tell(f"A manager of their own serves at {address} (pid {sandbox.manager_pid}).")
    asyncio.run(asyncio.wait_for(_tour_with_client(sandbox, narrator, address), LIMIT_S))
    say(workspace_table(merged_workspaces(sandbox.status()), indent=12))
    narrator.tell("That was the status: three servers, one restart.")
    show_record(sandbox, address, narrator.tell)
    running = len(sandbox.processes())
    code = sandbox.stop()
    _expect(code == 0, f"the manager ended with exit code {code}")
    left = sandbox.processes()
    _expect(not left, f"processes are left: {[process.pid for process in left]}")
    narrator.tell(f"Stopped. Of {running} processes, none is left.")


async def _tour_with_client(sandbox: Sandbox, narrator: Narrator, address: str) -> None:
    from mcp import Client  # 0.8 s that nobody but the demo should pay

    # it logs, with a traceback, notifications that arrive while it closes
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

    narrator.tell("The official MCP client is loaded.")
    notices: list[str] = []

    async def note(message: Any) -> None:
        notices.append(str(getattr(message, "method", "")))

    async with Client(address, mode="legacy", message_handler=note) as client:
        await _show_handshake(client, narrator, sandbox.project("harbour"), notices)
        await _show_direct_and_wrapped_calls(client, narrator, sandbox)
        await _show_stateless_client(Client, narrator, address, sandbox.project("orchard"))
        await ProjectToolsTour(client, sandbox, narrator.tell, _quote).run()
        await CodeTour(Client, address, sandbox.project(SHIPYARD), narrator.tell).run()
        await _show_server_restart(client, narrator, sandbox)
    await show_agent(sandbox, address, narrator.tell)


def _quote(text: str) -> None:
    say(*_indented(click.unstyle(text)).splitlines())


async def _show_handshake(client: Client, narrator: Narrator, folder: Path, notices: list[str]) -> None:
    _expect(client.protocol_version == LATEST_LEGACY, f"the client speaks {client.protocol_version}")
    before = [tool.name for tool in (await client.list_tools()).tools]
    _expect(before == [HANDSHAKE, CALL_TOOL], f"unexpected tools: {before}")
    narrator.tell(
        f"A client connects with a session ({LATEST_LEGACY}) and sees two tools: {', '.join(before)}."
    )
    answer = _content(await client.call_tool(HANDSHAKE, {"cwd": str(folder)}))
    offered = [tool["name"] for tool in answer["discovery"]["bridgedTools"]]
    _expect(answer["cwd"] == str(folder), f"the handshake answered for {answer['cwd']}")
    narrator.tell(f"It names the folder harbour: a server starts for it, {answer['workspace']}.")
    narrator.tell(f"The answer brings {len(offered)} tools: {', '.join(offered)}.")
    after = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
    _expect(set(after) == {*before, *offered}, f"the list has {after}")
    _expect("notifications/tools/list_changed" in notices, f"told only of {notices}")
    narrator.tell("The client was told that its list changed; it has them all now.")


async def _show_direct_and_wrapped_calls(client: Client, narrator: Narrator, sandbox: Sandbox) -> None:
    here = _text(await client.call_tool("lm_findFiles", {"query": "*.py"}))
    _expect("lighthouse.py" in here and "apples.py" not in here, here)
    narrator.tell("lm_findFiles, called directly, finds lighthouse.py in harbour.")
    wrapped = {"name": "lm_findFiles", "arguments": {"query": "*.py"}, "cwd": str(sandbox.project("orchard"))}
    there = _text(await client.call_tool(CALL_TOOL, wrapped))
    _expect("apples.py" in there and "lighthouse.py" not in there, there)
    narrator.tell("The same through callTool with orchard's folder: a second server starts, finds apples.py.")
    again = _text(await client.call_tool("lm_findFiles", {"query": "*.py"}))
    _expect(again == here, again)
    narrator.tell("The session itself stayed in harbour.")


async def _show_stateless_client(
    client_type: type[Client], narrator: Narrator, address: str, folder: Path
) -> None:
    async with client_type(f"{address}?cwd={quote(str(folder))}", mode="auto") as client:
        _expect(client.protocol_version == LATEST_MODERN, f"the client speaks {client.protocol_version}")
        tools = [tool.name for tool in (await client.list_tools()).tools]
        _expect("lm_findFiles" in tools and HANDSHAKE not in tools, f"unexpected tools: {tools}")
        matches = _text(await client.call_tool("lm_findTextInFiles", {"query": "APPLES"}))
        _expect("apples.py" in matches, matches)
    narrator.tell(
        f"A client without a session ({LATEST_MODERN}) adds ?cwd= to the address: it is in orchard at once."
    )


async def _show_server_restart(client: Client, narrator: Narrator, sandbox: Sandbox) -> None:
    victim, bystander = sandbox.server_pid("harbour"), sandbox.server_pid("orchard")
    for number, line in enumerate(_story_lines(sandbox), start=1):
        if number == 3:
            await asyncio.to_thread(sandbox.kill, victim)
            narrator.tell(f"kill -9 {victim}: harbour's server is gone in the middle of the story.")
        arguments = {"filePath": "story.txt", "startLine": number, "endLine": number}
        read = _text(await client.call_tool("lm_readFile", arguments))
        _expect(line in read, read)
        narrator.tell(f"lm_readFile, line {number}: {line}")
    successor = sandbox.server_pid("harbour")
    _expect(successor not in {0, victim}, "harbour has no new server")
    _expect(sandbox.server_pid("orchard") == bystander, "orchard's server changed, too")
    narrator.tell(f"The same session went on: pid {successor} serves harbour now. Orchard noticed nothing.")


def _story_lines(sandbox: Sandbox) -> Iterator[str]:
    yield from (sandbox.project("harbour") / "story.txt").read_text("utf-8").splitlines()


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise TourError(otherwise)


def _text(result: CallToolResult) -> str:
    text = "\n".join(getattr(block, "text", "") for block in result.content)
    _expect(not result.is_error, text)
    return text


def _content(result: CallToolResult) -> dict[str, Any]:
    _expect(not result.is_error and result.structured_content is not None, _text(result))
    return dict(result.structured_content or {})


def _indented(text: str) -> str:
    return "\n".join(f"            {line}" for line in text.splitlines())


def _reasons(error: BaseException) -> list[str]:
    """The texts of an error, or of all errors in a group of them."""
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in _reasons(inner)]
    return [str(error) or type(error).__name__]
