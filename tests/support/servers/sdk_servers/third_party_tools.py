"""The tools of the third-party test server, and the state they keep."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from support.servers.sdk_servers.input_requests import interim, plain, put
from support.servers.sdk_servers.third_party_content import (
    APPEARED,
    CHAINED,
    HIDDEN,
    IMAGE,
    MODERN,
    ODD_TEXT,
    PLAIN,
    PROMPTS,
    TOOLS,
    Json,
    text_block,
    tool,
)


@dataclass
class State:
    """What the server was asked to be, and what happened so far."""

    options: argparse.Namespace
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {"started": Counter(), "finished": Counter(), "cancelled": Counter()})  # fmt: skip
    changed: bool = False
    prompt_changed: bool = False
    watched: set[str] = field(default_factory=set)
    bus: Any = None

    def tools(self, show_all: bool) -> list[Json]:
        """The tools as they are now."""
        filler = [tool(f"filler_{number:04}") for number in range(self.options.filler)]
        chained = [*CHAINED, *([HIDDEN] if show_all else [])] if self.options.chained else []
        return [*TOOLS, *filler, *chained, *([APPEARED] if self.changed else [])]

    def prompts(self) -> list[Json]:
        """The prompts as they are now."""
        return [*PROMPTS, *([{"name": APPEARED["name"]}] if self.prompt_changed else [])]

    async def watch(self, ctx: Any, params: Any) -> Json:
        """Somebody of the older era wants to hear of a resource."""
        self.watched.add(str(params.uri))
        return {}

    async def unwatch(self, ctx: Any, params: Any) -> Json:
        """And no more."""
        self.watched.discard(str(params.uri))
        return {}


async def prompt(state: State, ctx: Any, params: Any) -> Json:
    """The result of `prompts/get`."""
    if params.name == "ask":
        asked = await answer(state, ctx, "elicit", params.arguments or {}, params)
        if "inputRequests" in asked:
            return asked
        return {"messages": [{"role": "user", "content": asked["content"][0]}]}
    greeting = text_block(f"Hello {(params.arguments or {}).get('who')}")
    content = IMAGE if params.name == "picture" else greeting
    return {"description": params.name, "messages": [{"role": "user", "content": content}]}


async def answer(state: State, ctx: Any, name: str, arguments: Json, params: Any) -> Json:
    """The result of one call."""
    if name in PLAIN:
        return PLAIN[name]
    if name.startswith("filler_"):
        return {"content": [text_block(name)]}
    behaviour = BEHAVIOURS.get(name)
    if behaviour is None:
        from mcp.shared.exceptions import MCPError

        raise MCPError(-32602, f"Unknown tool: {name}")
    return await behaviour(state, ctx, arguments, params)


async def _text(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    return {"content": [text_block(arguments.get("text", ODD_TEXT))]}


async def _is_error(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    return {"content": [text_block(arguments.get("text", "it went wrong"))], "isError": True}


async def _rpc_error(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    from mcp.shared.exceptions import MCPError

    code, message = arguments.get("code", 4242), arguments.get("message", "a fault of my own")
    raise MCPError(code, message, {"why": ["because", None]})


async def _progress(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    steps = arguments.get("steps", 3)
    for step in range(1, steps + 1):
        await ctx.session.report_progress(step, steps, f"step {step}")
        await ctx.session.send_log_message(
            "info", {"step": step}, "third-party", related_request_id=ctx.request_id
        )
    return {"content": [text_block(f"{steps} steps")]}


async def _slow(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    await asyncio.sleep(arguments.get("seconds", 30))
    return {"content": [text_block(arguments.get("label", "done"))]}


async def _echo(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    headers = dict(ctx.request.headers) if ctx.request is not None else {}
    seen = {"arguments": arguments, "_meta": (ctx.params or {}).get("_meta"), "headers": headers}
    return {"content": [text_block(json.dumps(seen, ensure_ascii=False))], "structuredContent": seen}


async def _ledger(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    counts = {kind: dict(counter) for kind, counter in state.counts.items()}
    return {"content": [text_block(json.dumps(counts))], "structuredContent": counts}


async def _big(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    return {"content": [text_block("x" * arguments.get("size", 1 << 20))]}


async def _die(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    os._exit(3)


async def _change_tools(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    from mcp.shared.subscriptions import ToolsListChanged

    state.changed = not state.changed
    if ctx.protocol_version == MODERN:
        await state.bus.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()
    return {"content": [text_block("changed")]}


async def _change_prompts(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    from mcp.shared.subscriptions import PromptsListChanged

    state.prompt_changed = not state.prompt_changed
    if ctx.protocol_version == MODERN:
        await state.bus.publish(PromptsListChanged())
    else:
        await ctx.session.send_prompt_list_changed()
    return {"content": [text_block("changed")]}


async def _touch(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    from mcp.shared.subscriptions import ResourceUpdated

    uri = arguments["uri"]
    if ctx.protocol_version == MODERN:
        await state.bus.publish(ResourceUpdated(uri))
    elif uri in state.watched:
        await ctx.session.send_resource_updated(uri)
    return {"content": [text_block("touched" if uri in state.watched else "not watched")]}


ASKED: dict[str, Callable[[Json], Json]] = {
    "elicit": lambda arguments: {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": arguments.get("message", "Your name?"),
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    },
    "sample": lambda arguments: {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": text_block(arguments.get("prompt", "Hello?"))}],
            "maxTokens": 16,
        },
    },
    "roots": lambda arguments: {"method": "roots/list"},
}


def _asking(name: str) -> Callable[..., Awaitable[Json]]:
    """A tool that answers what it was told: as a request in the old era, as an interim result in the new one."""

    async def ask(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
        question = ASKED[name](arguments)
        if ctx.protocol_version != MODERN:
            told = await put(ctx, question)
        elif not params.input_responses:
            return interim({"q": question}, f"state of {name}")
        else:
            told = {"state": params.request_state, **plain(params.input_responses["q"])}
        return {"content": [text_block(json.dumps(told))], "structuredContent": told}

    return ask


async def _tool_search(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    hits = [
        {
            "name": one["name"],
            "description": one["description"],
            "score": 0.9,
            "inputSchema": one["inputSchema"],
        }
        for one in (HIDDEN, *TOOLS)
        if arguments["query"].lower() in one["description"].lower()
    ][: arguments.get("max_results", 5)]
    await asyncio.sleep(state.options.search_delay)
    return {"content": [text_block(json.dumps(hits))], "structuredContent": {"results": hits}}


async def _execute_tool(state: State, ctx: Any, arguments: Json, params: Any) -> Json:
    return await answer(state, ctx, arguments["name"], arguments.get("arguments") or {}, params)


BEHAVIOURS: dict[str, Callable[[State, Any, Json, Any], Awaitable[Json]]] = {
    "text": _text,
    "is_error": _is_error,
    "rpc_error": _rpc_error,
    "progress": _progress,
    "slow": _slow,
    "echo": _echo,
    "ledger": _ledger,
    "big": _big,
    "die": _die,
    "change_tools": _change_tools,
    "change_prompts": _change_prompts,
    "touch": _touch,
    "tool_search": _tool_search,
    "execute_tool": _execute_tool,
} | {name: _asking(name) for name in ASKED}
