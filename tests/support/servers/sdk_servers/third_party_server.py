"""A third-party MCP server on the official SDK with every kind of content, for tests of sources.

A program: `python tests/support/servers/sdk_servers/third_party_server.py --stdio | --http PORT | --sse PORT`; PORT 0 lets the system
choose. It prints the port on its first line once it answers. `--legacy` or `--modern` serve one era, the default is
both. With `--http`, one process also serves variants on other paths (`VARIANTS`). It ends with its standard input where
that is a pipe. `third_party.py` starts it for tests.

Members that the SDK's models would drop are added again behind them, in `_foreign_members`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from support.servers.sdk_servers import third_party_skills
from support.servers.sdk_servers.serving import App, enveloped, guarded, routed, serve_http, serve_stdio
from support.servers.sdk_servers.third_party_content import (
    CONTENTS,
    FOREIGN_DEFINITIONS,
    FOREIGN_RESULTS,
    MODERN,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Json,
)
from support.servers.sdk_servers.third_party_tools import State, answer, prompt


def build(state: State) -> Any:
    """The SDK's server with all handlers."""
    from mcp.server.lowlevel import Server
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
    from mcp.shared.exceptions import MCPError

    state.bus = InMemorySubscriptionBus()

    resources, contents = third_party_skills.added_to(state.options, RESOURCES, CONTENTS)

    async def list_tools(ctx: Any, params: Any) -> Json:
        show_all = ctx.request is not None and ctx.request.headers.get("x-mcp-show-all") == "true"
        return _page("tools", state.tools(show_all), params, state.options.page_size)

    async def call_tool(ctx: Any, params: Any) -> Json:
        started = state.counts["started"]
        started[params.name] += 1
        try:
            result = await answer(state, ctx, params.name, params.arguments or {}, params)
        except asyncio.CancelledError:
            state.counts["cancelled"][params.name] += 1
            raise
        state.counts["finished"][params.name] += 1
        return result

    async def read(ctx: Any, params: Any) -> Json:
        uri = str(params.uri)
        if uri.startswith("demo://item/"):
            return {
                "contents": [{"uri": uri, "mimeType": "text/plain", "text": uri.removeprefix("demo://item/")}]
            }
        if uri not in contents:
            raise MCPError(
                -32602 if ctx.protocol_version == MODERN else -32002, "Resource not found", {"uri": uri}
            )
        return {"contents": [contents[uri]]}

    async def get_prompt(ctx: Any, params: Any) -> Json:
        return await prompt(state, ctx, params)

    async def complete(ctx: Any, params: Any) -> Json:
        return {
            "completion": {
                "values": [f"{params.argument.value}{end}" for end in ("a", "b")],
                "hasMore": False,
            }
        }

    async def set_level(ctx: Any, params: Any) -> Json:
        return {}

    def listing(member: str, all_of_them: Callable[[], list[Json]]) -> Any:
        async def handler(ctx: Any, params: Any) -> Json:
            return _page(member, all_of_them(), params, state.options.page_size)

        return handler

    arguments: Any = {
        "on_list_tools": list_tools,
        "on_call_tool": call_tool,
        "on_list_resources": listing("resources", lambda: resources),
        "on_list_resource_templates": listing("resourceTemplates", lambda: TEMPLATES),
        "on_read_resource": read,
        "on_subscribe_resource": state.watch,
        "on_unsubscribe_resource": state.unwatch,
        "on_list_prompts": listing("prompts", state.prompts),
        "on_get_prompt": get_prompt,
        "on_completion": complete,
        "on_set_logging_level": set_level,
        "on_subscriptions_listen": ListenHandler(state.bus),
        "get_tool_input_schema": lambda name: next(
            (one["inputSchema"] for one in TOOLS if one["name"] == name), None
        ),
    }
    served = {key: enveloped(value) if key.startswith("on_") else value for key, value in arguments.items()}
    server: Any = Server("third-party", version="1.2.3", instructions="Be kind to strangers.", **served)
    server.middleware.append(_foreign_members)
    third_party_skills.add_skills(server, state.options, MODERN)
    plain_options = server.create_initialization_options
    server.create_initialization_options = lambda *given, **named: plain_options(
        *(given or (_notifying(),)), **named
    )
    return server


def _notifying() -> Any:
    from mcp.server.lowlevel import NotificationOptions

    return NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


def _page(member: str, all_of_them: list[Json], params: Any, size: int) -> Json:
    start = int(params.cursor) if params is not None and params.cursor else 0
    end = start + size if size else len(all_of_them)
    return {member: all_of_them[start:end]} | ({"nextCursor": str(end)} if end < len(all_of_them) else {})


async def _foreign_members(ctx: Any, call_next: Any) -> Any:
    result = await call_next(ctx)
    if ctx.method == "tools/list":
        for definition in result["tools"]:
            definition.update(FOREIGN_DEFINITIONS.get(definition["name"], {}))
    elif ctx.method == "tools/call":
        foreign = FOREIGN_RESULTS.get(ctx.params["name"], {})
        meta = {**result.get("_meta", {}), **foreign.get("_meta", {})}
        result = result | foreign | ({"_meta": meta} if meta else {})
    return result


VARIANTS: dict[str, Json] = {
    "/legacy/": {"era": "legacy"},
    "/modern/": {"era": "modern"},
    "/json/": {"json": True},
    "/chained/": {"chained": True},
    "/": {},
}
"""What `--http` also serves below these paths: servers of their own that differ in these options."""


def http_app(state: State) -> App:
    """Streamable HTTP at `/mcp`, its variants at `/legacy/mcp` and so on, the older transport at `/sse`."""
    older = guarded(sse_app(State(state.options)), state.options.era, state.options.token)
    apps, managers = {"/sse": older, "/messages/": older}, []
    for path, members in VARIANTS.items():
        options = argparse.Namespace(**(vars(state.options) | members))
        server = build(State(options))
        inner = server.streamable_http_app(json_response=options.json, streamable_http_path=f"{path}mcp")
        apps[path] = guarded(inner, options.era, options.token)
        managers.append(server.session_manager)
    return routed(apps, managers)


def sse_app(state: State) -> App:
    """The older HTTP with SSE: the stream at `/sse`, messages to `/messages/`."""
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    server, transport = build(state), SseServerTransport("/messages/")

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", stream), Mount("/messages/", transport.handle_post_message)])


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true")
    way.add_argument("--http", type=int, metavar="PORT")
    way.add_argument("--sse", type=int, metavar="PORT")
    era = parser.add_mutually_exclusive_group()
    for name in ("legacy", "modern", "both"):
        era.add_argument(f"--{name}", dest="era", action="store_const", const=name, default="both")
    parser.add_argument("--page-size", type=int, default=0, help="entries per page of every list")
    parser.add_argument("--filler", type=int, default=0, help="that many tools more")
    parser.add_argument("--token", default="", help="answer only to this bearer token")
    parser.add_argument("--json", action="store_true", help="answer as JSON instead of a stream")
    parser.add_argument(
        "--chained", action="store_true", help="hide a tool behind tool_search and execute_tool"
    )
    parser.add_argument("--skills", action="store_true", help="offer skills by the extension")
    parser.add_argument("--start-delay", type=float, default=0.0, help="seconds before it serves")
    parser.add_argument("--search-delay", type=float, default=0.0, help="seconds that tool_search takes")
    return parser.parse_args(arguments)


def main() -> None:
    """Serve as the command line says."""
    warnings.simplefilter("ignore")
    state = State(options_of())
    time.sleep(state.options.start_delay)
    if state.options.stdio:
        asyncio.run(serve_stdio(build(state), state.options.era))
    elif state.options.http is not None:
        serve_http(state.options.http, http_app(state))
    else:
        serve_http(state.options.sse, guarded(sse_app(state), state.options.era, state.options.token))


if __name__ == "__main__":
    main()
