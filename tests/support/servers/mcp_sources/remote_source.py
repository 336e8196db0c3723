"""Creates remote sources from a user configuration entry, and calls their tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from workspace_server.call_context import CallContext
from workspace_server.config.model import EntryOrigin, RemoteServer
from workspace_server.sources.mcp.remote.source import RemoteSource

MakeSource = Callable[..., RemoteSource]


def entry(url: str, **members: Any) -> RemoteServer:
    """An entry of the user's own configuration."""
    return RemoteServer("away", url, EntryOrigin(Path("mcp.toml"), "user"), **members)


def context(arguments: Any = None, **members: Any) -> CallContext:
    """The context of a call with these arguments."""
    return CallContext(arguments=msgspec.Raw(json.dumps(arguments or {}).encode()), **members)


async def call(source: RemoteSource, name: str = "echo", arguments: Any = None, **members: Any) -> Any:
    """Call a tool; a raw result is decoded."""
    outcome = await source.call_tool(name, arguments or {}, context(arguments, **members))
    return json.loads(bytes(outcome)) if isinstance(outcome, msgspec.Raw) else outcome
