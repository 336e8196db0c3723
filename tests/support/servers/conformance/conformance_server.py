"""An MCP server on the official SDK for all scenarios of the official conformance suite.

A program: `python tests/support/servers/conformance/conformance_server.py --stdio | --http PORT`; PORT 0 lets the system choose. It
prints the port on its first line once it answers. `--legacy` or `--modern` serve one era, the default is both. With
`--http`, `/legacy/mcp` and `/modern/mcp` serve one era each. It ends with its standard input where that is a pipe.

Its data is in `conformance_content.py` and `conformance_questions.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from support.servers.conformance.conformance_content import (
    APPEARED_PROMPT,
    APPEARED_TOOL,
    CONTENTS,
    PLAIN,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Json,
    prompt_blocks,
    text_block,
)
from support.servers.conformance.conformance_questions import DIALOGUES
from support.servers.sdk_servers.serving import (
    MODERN,
    App,
    enveloped,
    guarded,
    routed,
    serve_http,
    serve_stdio,
)

RETRY_MS = 100
PAUSE_S = 0.05
"""Between the notifications of a tool; long enough for the suite to see them one by one."""


class ConformanceServer:
    """The handlers of one server, and what clients changed."""

    def __init__(self) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self.bus = InMemorySubscriptionBus()
        self._tool_appeared = False
        self._prompt_appeared = False

    async def list_tools(self, ctx: Any, params: Any) -> Json:
        return {"tools": [*TOOLS, *([APPEARED_TOOL] if self._tool_appeared else [])]}

    async def list_prompts(self, ctx: Any, params: Any) -> Json:
        return {"prompts": [*PROMPTS, *([APPEARED_PROMPT] if self._prompt_appeared else [])]}

    async def list_resources(self, ctx: Any, params: Any) -> Json:
        return {"resources": RESOURCES}

    async def list_templates(self, ctx: Any, params: Any) -> Json:
        return {"resourceTemplates": TEMPLATES}

    async def call_tool(self, ctx: Any, params: Any) -> Json:
        if params.name in PLAIN:
            return PLAIN[params.name]
        if params.name in BEHAVIOURS:
            return {"content": [text_block(await BEHAVIOURS[params.name](self, ctx))]}
        if params.name in DIALOGUES:
            question, answers = await DIALOGUES[params.name].hold(ctx, params)
            return question or {"content": [text_block(f"The answers: {answers}")]}
        raise _refusal(f"Unknown tool: {params.name}")

    async def get_prompt(self, ctx: Any, params: Any) -> Json:
        answers: Json = {}
        if params.name in DIALOGUES:
            question, answers = await DIALOGUES[params.name].hold(ctx, params)
            if question:
                return question
        elif params.name not in {prompt["name"] for prompt in PROMPTS}:
            raise _refusal(f"Unknown prompt: {params.name}")
        blocks = prompt_blocks(params.name, params.arguments or {}, answers)
        return {"messages": [{"role": "user", "content": block} for block in blocks]}

    async def read(self, ctx: Any, params: Any) -> Json:
        uri = str(params.uri)
        before, _, after = uri.partition("test://template/")
        identity = after.removesuffix("/data")
        if before == "" and identity:
            made = f'{{"id":"{identity}","templateTest":true,"data":"Data for ID: {identity}"}}'
            return {"contents": [{"uri": uri, "mimeType": "application/json", "text": made}]}
        if uri not in CONTENTS:
            code = -32602 if ctx.protocol_version == MODERN else -32002
            raise _refusal("Resource not found", code, {"uri": uri})
        return {"contents": [{"uri": uri, **CONTENTS[uri]}]}

    async def complete(self, ctx: Any, params: Any) -> Json:
        return {"completion": {"values": [f"{params.argument.value}s"], "total": 1, "hasMore": False}}

    async def accept(self, ctx: Any, params: Any) -> Json:
        """Subscribing and the log level: taken note of, no more."""
        return {}

    async def change_tools(self, ctx: Any) -> str:
        from mcp.shared.subscriptions import ToolsListChanged

        self._tool_appeared = not self._tool_appeared
        await self.bus.publish(ToolsListChanged())
        if ctx.protocol_version != MODERN:
            await ctx.session.send_tool_list_changed()
        return "There are other tools now."

    async def change_prompts(self, ctx: Any) -> str:
        from mcp.shared.subscriptions import PromptsListChanged

        self._prompt_appeared = not self._prompt_appeared
        await self.bus.publish(PromptsListChanged())
        if ctx.protocol_version != MODERN:
            await ctx.session.send_prompt_list_changed()
        return "There are other prompts now."


async def _log(ctx: Any, text: str) -> None:
    await ctx.session.send_log_message("info", text, "conformance", related_request_id=ctx.request_id)


async def _logging(_: ConformanceServer, ctx: Any) -> str:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(ctx, text)
        await asyncio.sleep(PAUSE_S)
    return "Logged three messages."


async def _progress(_: ConformanceServer, ctx: Any) -> str:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE_S)
    return "Reported progress."


async def _reconnection(_: ConformanceServer, ctx: Any) -> str:
    await _log(ctx, "Before disconnect")
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(2 * RETRY_MS / 1000)
    await _log(ctx, "After reconnect")
    return "Answered after the stream was closed."


async def _one_message(_: ConformanceServer, ctx: Any) -> str:
    await _log(ctx, "A message")
    return "Logged a message, to those who want it."


BEHAVIOURS: dict[str, Callable[[ConformanceServer, Any], Awaitable[str]]] = {
    "test_tool_with_logging": _logging,
    "test_tool_with_progress": _progress,
    "test_logging_tool": _one_message,
    "test_reconnection": _reconnection,
    "test_trigger_tool_change": ConformanceServer.change_tools,
    "test_trigger_prompt_change": ConformanceServer.change_prompts,
}


def _refusal(message: str, code: int = -32602, data: Any = None) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(code, message, data)


def build() -> Any:
    """The SDK's server."""
    from mcp.server.lowlevel import NotificationOptions, Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.subscriptions import ListenHandler

    here = ConformanceServer()
    handlers: Any = {
        "on_list_tools": here.list_tools,
        "on_call_tool": here.call_tool,
        "on_list_resources": here.list_resources,
        "on_list_resource_templates": here.list_templates,
        "on_read_resource": here.read,
        "on_subscribe_resource": here.accept,
        "on_unsubscribe_resource": here.accept,
        "on_list_prompts": here.list_prompts,
        "on_get_prompt": here.get_prompt,
        "on_completion": here.complete,
        "on_set_logging_level": here.accept,
        "on_subscriptions_listen": ListenHandler(here.bus),
    }
    served = {key: enveloped(handler) for key, handler in handlers.items()}
    server: Any = Server(
        "conformance", version="1.0.0", instructions="ConformanceServer the suite asks for.", **served
    )
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="conformance")
    )
    plain_options = server.create_initialization_options
    news = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    server.create_initialization_options = lambda *given, **named: plain_options(*(given or (news,)), **named)
    return server


def http_app(era: str) -> App:
    """Servers at `/mcp`, `/legacy/mcp` and `/modern/mcp`; what was sent on streams can be fetched again."""
    apps, managers = {}, []
    for path, served in {"/legacy/": "legacy", "/modern/": "modern", "/": era}.items():
        server = build()
        inner = server.streamable_http_app(
            streamable_http_path=f"{path}mcp", event_store=_store(), retry_interval=RETRY_MS
        )
        apps[path] = guarded(inner, served)
        managers.append(server.session_manager)
    return routed(apps, managers)


def _store() -> Any:
    from mcp.server.streamable_http import EventMessage, EventStore

    class Kept(EventStore):
        """All events, in order; an event's id is its place."""

        def __init__(self) -> None:
            self._events: list[tuple[str, Any]] = []

        async def store_event(self, stream_id: str, message: Any) -> str:
            self._events.append((stream_id, message))
            return str(len(self._events))

        async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
            place = int(last_event_id)
            if not 0 < place <= len(self._events):
                return None
            stream = self._events[place - 1][0]
            for number, (owner, message) in enumerate(self._events[place:], place + 1):
                if owner == stream and message is not None:
                    await send_callback(EventMessage(message, str(number)))
            return stream

    return Kept()


def main() -> None:
    """Serve as the command line says."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true")
    way.add_argument("--http", type=int, metavar="PORT")
    era = parser.add_mutually_exclusive_group()
    for name in ("legacy", "modern", "both"):
        era.add_argument(f"--{name}", dest="era", action="store_const", const=name, default="both")
    options = parser.parse_args()
    if options.stdio:
        asyncio.run(serve_stdio(build(), options.era))
    else:
        serve_http(options.http, http_app(options.era))


if __name__ == "__main__":
    main()
