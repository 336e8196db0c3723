"""`execute_tool` over every tool of every kind of source: the answer is that of the tool, byte for byte."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import names
from support.processes.workspace_app import Serving, serving
from support.projects.script_tools import script_source
from support.servers.mcp_sources.remote_source import entry
from support.servers.mcp_sources.stdio_servers import stdio_source
from support.servers.sdk_servers.third_party import START_S, stdio_command, third_party
from workspace_server.catalog.view import View
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies
from workspace_server.sources.mcp.remote.source import RemoteSource
from workspace_server.workspace import Workspace

pytestmark = pytest.mark.processes

ROUNDS = 3
CHANGING = frozenset({"datetime", "ledger", "die", "slow", "change_tools", "progress", "big"})
"""Tools whose answer is another one the second time, or takes long."""
STATE = re.compile(rb'"requestState":"[^"]+"')
GREET = 'import lmtb_tool\nlmtb_tool.return_object({"hello": lmtb_tool.get("name", "World")})\n'
FAIL = 'raise ValueError("no luck")\n'


@asynccontextmanager
async def every_kind(folder: Path) -> AsyncIterator[Serving]:
    """One workspace server with tools of all four kinds."""
    (folder / "built").mkdir()
    (folder / "built" / "a.txt").write_text("one\ntwo\n")
    async with AsyncExitStack() as stack:
        scripts = await stack.enter_async_context(script_source(folder / "scripts"))
        for name, text in (("greet", GREET), ("fail", FAIL)):
            place = scripts.root / "tools" / name
            place.mkdir()
            (place / "tool.toml").write_text(
                f'description = "{name}"\nscript = "x.py"\n[parameters.name]\ntype = "string"\n'
            )
            (place / "x.py").write_text(text)
        child = await stack.enter_async_context(stdio_source(stdio_command(), folder))
        away = stack.enter_context(third_party("http"))
        remote = RemoteSource(entry(away.url), RemoteDependencies(str(folder), "1"))
        sources = [BuiltinSource(Workspace.of(folder / "built")), scripts.source, child, remote]
        yield await stack.enter_async_context(serving(sources))


async def whole_view(served: Serving) -> View:
    """What is offered when every kind of source has been heard."""
    async with asyncio.timeout(START_S):
        while True:
            view = await served.toolset.current()
            if {offered.source.kind for offered in view.tools} == {"builtin", "script", "stdio", "remote"}:
                return view
            await asyncio.sleep(0.05)


def guess(schema: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Arguments that often fit a schema and sometimes do not."""
    found = {}
    for name, inner in schema.get("properties", {}).items():
        if chance.random() < 0.3 and name not in schema.get("required", ()):
            continue
        found[name] = _value(inner, chance)
    if chance.random() < 0.2:
        found["unknown"] = 1.5
    if chance.random() < 0.1 and found:
        found.popitem()
    return found


def _value(schema: Mapping[str, Any], chance: random.Random) -> Any:
    if "enum" in schema:
        return chance.choice(schema["enum"])
    texts = ["", "a.txt", "2 + 2", "*", "é\n\u2028}", "now"]
    kinds = {
        "string": lambda: chance.choice(texts),
        "integer": lambda: chance.choice([0, 1, 3, -1]),
        "number": lambda: chance.choice([0.5, 2]),
        "boolean": lambda: chance.random() < 0.5,
        "array": list,
        "object": dict,
    }
    kind = schema.get("type", "string")
    return kinds.get(kind if isinstance(kind, str) else "string", list)()


async def raw_answer(served: Serving, name: str, arguments: str) -> bytes:
    params = f'{{"name":{json.dumps(name)},"arguments":{arguments}}}'
    answer = msgspec.json.decode(
        await served.caller.raw(names.TOOLS_CALL, params, name=name), type=dict[str, msgspec.Raw]
    )
    outcome = bytes(answer["result"] if "result" in answer else answer["error"])
    return STATE.sub(b'"requestState":"sealed anew each time"', outcome)


async def test_execute_tool_equals_the_call_for_every_tool_of_every_source(tmp_path: Path) -> None:
    """Good and failing calls, from hundreds of arguments."""
    chance = random.Random(20_260_728)
    async with every_kind(tmp_path) as served:
        view = await whole_view(served)
        outcomes = set()
        for offered in view.tools:
            if offered.tool.name in CHANGING or "x-mcp-header" in json.dumps(offered.schema):
                continue
            for _ in range(ROUNDS):
                arguments = json.dumps(guess(offered.schema, chance))
                wrapped = f'{{"name":"{offered.name}","arguments":{arguments}}}'
                form = chance.choice([wrapped, wrapped.replace('"arguments"', '"parameters"', 1)])
                direct = await raw_answer(served, offered.name, arguments)
                assert await raw_answer(served, "execute_tool", form) == direct, (offered.name, arguments)
                outcomes.add((offered.source.kind, b'"isError":true' in direct))
        assert len(outcomes) >= 7
