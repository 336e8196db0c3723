"""Reads the calls to replay, and sends them to an MCP server.

They come from the recorder's database or from a file of `lmtb calls export`. The client of the official SDK
sends them, because it speaks every revision.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from lm_tools_bridge.machine.proved_server import require_own_server
from lm_tools_bridge.protocol import names
from lm_tools_bridge.recorder.call_log import Call, Contents
from lm_tools_bridge.recorder.result_comparison import Difference, differences
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.redaction import HIDDEN, Redactor
from manager.call_observer import GOES_ON, TASK

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

CONTENTS_STEP: Final = "record contents first (lmtb record on --contents), and let the agent call it again"


class RecordedCall(msgspec.Struct, frozen=True):
    """A call that can be sent again.

    Attributes:
        name: how it is called in messages: its id, or its line in the file.
        result: its result; None if that was not recorded as a whole.
        problem: why it cannot be sent again; None if it can.
    """

    name: str
    tool: str
    project: str | None
    arguments: dict[str, Any]
    result: Any = None
    problem: str | None = None


def recorded_call(name: str, call: Call, contents: Contents | None) -> RecordedCall:
    """A call of the database with its contents."""
    tool, project = call.tool or "", call.project
    if call.method != "tools/call" or not tool:
        return RecordedCall(name, call.method, project, {}, problem="it is no call of a tool")
    if contents is None or contents.arguments is None:
        return RecordedCall(name, tool, project, {}, problem="its arguments were not recorded")
    arguments = _parsed(contents.arguments)
    if not isinstance(arguments, dict):
        return RecordedCall(name, tool, project, {}, problem="its arguments were recorded only in part")
    if HIDDEN in contents.arguments:
        return RecordedCall(name, tool, project, arguments, problem="secrets in its arguments were hidden")
    is_known = not contents.is_cut and contents.result is not None and call.outcome != TASK
    result = _parsed(contents.result or "") if is_known else None
    return RecordedCall(name, tool, project, arguments, result)


def read_file(file: Path) -> list[RecordedCall]:
    """The calls of tools in an exported file.

    Raises:
        Failure: it cannot be read, or has no such calls.
    """
    try:
        calls = list(_calls_in(file.read_text("utf-8").splitlines(), file.name))
    except (OSError, ValueError, msgspec.ValidationError) as error:
        step = "make it with: lmtb calls export --contents -o FILE"
        raise Failure(
            f"{file} is no file of recorded calls: {error}", step, reason="unusable_file"
        ) from error
    if not calls:
        raise Failure(f"{file} has no recorded calls", "make it with: lmtb calls export --contents -o FILE")
    return calls


def _calls_in(lines: Iterable[str], file: str) -> Iterator[RecordedCall]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        members = json.loads(line)
        held = members.pop("contents", None)
        contents = None if held is None else msgspec.convert(held, Contents)
        call = msgspec.convert(members, Call)
        if call.method == "tools/call" and call.outcome not in GOES_ON and not _is_own(call):
            yield recorded_call(f"{file}:{number}", call, contents)


def _is_own(call: Call) -> bool:
    """Whether it is a call of a tool of the manager, which depends on its session."""
    return call.tool in names.MANAGER_TOOL_NAMES


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


CALL_S: Final = 660.0
"""Longest time for one call; tools that run longer are cut off."""
_MOST_PAGES: Final = 100
"""Pages of a list of tools: a server whose list has no end must not keep the replay for ever."""


class Replayed(msgspec.Struct, rename="camel"):
    """What became of one call.

    Attributes:
        outcome: `same`, `different`, `sent` (there was nothing to compare with), `skipped` or `failed`.
        why: why it was skipped or failed.
        result: the new result, without its secrets.
    """

    call: str
    tool: str
    outcome: str
    why: str | None = None
    differences: list[Difference] = []
    result: Any = None


class Plan(msgspec.Struct, frozen=True):
    """How calls are sent.

    Attributes:
        address: URL of the MCP server.
        server: namespace of the server of a project whose tools are called instead; None for the same ones.
        may_write: decides on a tool that does not say that it only reads.
        ignored: places that are not compared.
        hidden_keys: names of members that were hidden when the calls were recorded.
        own_headers: header fields for the user's own manager.
    """

    address: str
    may_write: Callable[[str], bool]
    server: str | None = None
    ignored: Sequence[str] = ()
    hidden_keys: Sequence[str] = ()
    own_headers: Mapping[str, str] = {}


def send(calls: Sequence[RecordedCall], plan: Plan) -> list[Replayed]:
    """Send the calls one after the other, and compare each result. Asks all questions before the first one.

    Raises:
        Failure: the server cannot be reached, or the project has no server of that name.
    """
    try:
        return asyncio.run(_send(calls, plan))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        first = _first(error)
        if isinstance(first, click.ClickException | click.Abort):
            raise first from None
        text = f"{plan.address} cannot be used as an MCP server: {first}"
        step = "check that it runs and that the address is complete"
        raise Failure(text, step, reason="unreachable") from error


async def _send(calls: Sequence[RecordedCall], plan: Plan) -> list[Replayed]:
    # it logs, with a traceback, what is told here in a sentence
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    async with _client(plan) as client:
        readers = await _reading_tools(client)
        _check_server(plan, readers)
        ready = [_prepared(call, plan, readers) for call in calls]
        return [
            ready_call if isinstance(ready_call, Replayed) else await _replay(client, call, ready_call, plan)
            for call, ready_call in zip(calls, ready, strict=True)
        ]


def _check_server(plan: Plan, known: Collection[str]) -> None:
    if plan.server is None or any(tool.startswith(f"{plan.server}__") for tool in known):
        return
    raise Failure(
        f"the project has no server {plan.server} with tools",
        "list its servers with: lmtb servers",
        reason="unknown_server",
    )


def _prepared(call: RecordedCall, plan: Plan, readers: Mapping[str, bool]) -> str | Replayed:
    """The tool to call, or what became of a call that is not sent."""
    tool = renamed(call.tool, plan.server)
    if plan.server is None:
        tool = _name_at(tool, readers)
    if call.problem is not None:
        return Replayed(call.name, tool, "skipped", call.problem)
    if tool not in readers and not _has_failed(call.result):
        return Replayed(call.name, tool, "failed", "the server has no such tool")
    if not readers.get(tool) and not plan.may_write(tool):
        return Replayed(call.name, tool, "skipped", "the tool may change something, and this was not allowed")
    return tool


def renamed(tool: str, server: str | None) -> str:
    """How a recorded tool is called at the server: the same, or with another namespace."""
    return tool if server is None else f"{server}__{tool.rpartition('__')[2]}"


def _has_failed(result: Any) -> bool:
    """Whether a recorded result is an error, such as that of a tool which was not there then either."""
    return isinstance(result, dict) and ("error" in result or result.get("isError") is True)


def _client(plan: Plan) -> Client:
    from mcp import Client  # 0.8 s that only this verb should pay

    if not plan.own_headers:
        return Client(plan.address)
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    http = create_mcp_http_client(headers=dict(plan.own_headers))
    http.event_hooks["request"].append(_prove_server)
    return Client(streamable_http_client(plan.address, http_client=http))


async def _prove_server(request: httpx2.Request) -> None:
    """Before a byte goes over a new connection, prove that a program of this user serves it."""

    async def prove(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            stream = info["return_value"]
            sock = stream.get_extra_info("socket")
            try:
                require_own_server(sock.getsockname(), sock.getpeername(), has_secret=True)
            except OSError:
                await stream.aclose()
                raise

    request.extensions["trace"] = prove


async def _replay(client: Client, call: RecordedCall, tool: str, plan: Plan) -> Replayed:
    try:
        async with asyncio.timeout(CALL_S):
            raw = await client.call_tool(tool, call.arguments)
    except Exception as error:  # noqa: BLE001  each call gets its line, whatever the server does
        result: Any = {"error": {"message": str(error)}}
    else:
        result = raw.model_dump(mode="json", by_alias=True, exclude_none=True)
    result = Redactor(plan.hidden_keys).value(result)
    if call.result is None:
        return Replayed(call.name, tool, "sent", "its result was not recorded as a whole", result=result)
    changes = differences(_comparable(call.result), _comparable(result), plan.ignored)
    return Replayed(call.name, tool, "different" if changes else "same", None, changes, result)


def _name_at(tool: str, tools: Collection[str]) -> str:
    """How the server names a tool: asked directly, without the namespace that the project adds."""
    bare = tool.partition("__")[2]
    return bare if tool not in tools and bare in tools else tool


def _comparable(result: Any) -> Any:
    """A result; of an error only the message, as the client has no more."""
    error = result.get("error") if isinstance(result, dict) else None
    return {"error": {"message": error.get("message")}} if isinstance(error, dict) else result


async def _reading_tools(client: Client) -> dict[str, bool]:
    """Name of each tool -> whether it says that it only reads."""
    flags: dict[str, bool] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            flags[tool.name] = bool(tool.annotations and tool.annotations.read_only_hint)
        cursor = page.next_cursor
        if cursor is None:
            break
    return flags


def _first(error: BaseException) -> BaseException:
    """The error itself, or the first of a group: the client runs in a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
