"""The tool service: registers tools, checks inputs, runs calls of clients and models, and names errors."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.tool_source import (
    NO_SOURCES,
    InvalidSchema,
    problems_with,
    read_arguments,
    result_text,
)
from lm_tools_bridge.protocol.jsonrpc import INVALID_PARAMS
from lm_tools_bridge.text.near_names import did_you_mean


class ToolServiceError(Exception):
    """A request that is refused: unknown tool, invalid arguments, or an error reply of a server.

    Attributes:
        code: JSON-RPC error code.
        data: what the error carries besides.
    """

    def __init__(self, message: str, code: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data or {}


class ConnectionLost(Exception):
    """The connection ended before the reply came.

    Attributes:
        delivered: `unknown` if the request may have been executed, `no` if it certainly was not.
    """

    def __init__(self, message: str, delivered: str) -> None:
        super().__init__(message)
        self.delivered = delivered


_FAILED: Final = "Error: Tool call failed: {}"


RunTool = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Runs a tool: `ToolService.execute_tool`, or `ToolClient.call_tool` over a connection."""


async def execute_calls(run: RunTool | None, calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results `{callId, content, isError?}` of calls `{id, name, input}`; `isError` only where true.

    Args:
        run: runs a tool; None if there is nothing that could.
        calls: as a model made them. `input` may be an object, JSON text or absent.

    Returns:
        One result for each call, in the order of the calls. `content` is text: the text blocks, joined by
        newlines, and names of other blocks, such as `[image image/png, 12 KB]`.
    """
    return [await _result(run, call) for call in calls]


async def _result(run: RunTool | None, call: Mapping[str, Any]) -> dict[str, Any]:
    identity = str(call.get("id", ""))
    if run is None:
        return _error(identity, NO_SOURCES)
    arguments, problem = read_arguments(call.get("input"))
    if arguments is None:
        return _error(identity, problem or "Error: arguments must be an object")
    try:
        result = await run(str(call.get("name", "")), arguments)
    except ToolServiceError as refusal:
        return _error(identity, str(refusal))
    except (ConnectionLost, TimeoutError, OSError) as error:
        return _error(identity, _FAILED.format(error or type(error).__name__))
    text = result_text(result["content"], result.get("structuredContent"))
    return _error(identity, text) if result.get("isError") else {"callId": identity, "content": text}


def _error(identity: str, text: str) -> dict[str, Any]:
    return {"callId": identity, "content": text, "isError": True}


CallToolResult = dict[str, Any]
"""`{"content": […], "isError"?: true, "_meta"?: …}` and further members of MCP; `content` is always there."""


def result_of(returned: Any) -> CallToolResult:
    """The result for what a handler returned: a result, content blocks, a text, or any JSON value."""
    if isinstance(returned, Mapping) and isinstance(returned.get("content"), list | tuple):
        return _completed(returned)
    if isinstance(returned, str):
        return {"content": [text_block(returned)]}
    if isinstance(returned, Sequence) and returned and all(_is_block(block) for block in returned):
        return {"content": [dict(block) for block in returned]}
    if returned is None:
        return {"content": []}
    return {"content": [text_block(msgspec.json.encode(returned).decode())]}


def error_result(message: str) -> CallToolResult:
    """The result of a tool that failed, in words by which a model can correct itself."""
    return {"content": [text_block(f"Error: {message}")], "isError": True}


def text_block(text: str) -> dict[str, Any]:
    """A content block with text."""
    return {"type": "text", "text": text}


def _completed(result: Mapping[str, Any]) -> CallToolResult:
    """A result whose `isError` is there only where it is true."""
    whole = {**result, "content": [dict(block) for block in result["content"] if isinstance(block, Mapping)]}
    if whole.get("isError") is not True:
        whole.pop("isError", None)
    return whole


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


PAGE: Final = 100
"""Tools in one page of a list."""
CALL_S: Final = 120.0  # as clients wait for a call

ToolDefinition = Mapping[str, Any]
"""A tool as in MCP: `name`, `inputSchema`, and optionally `description`, `title`, `annotations` …"""
Handler = Callable[[Mapping[str, Any]], Any]
"""Runs a tool with its arguments, which fit its schema. May be asynchronous.

Returns a result of MCP, content blocks, a text or a JSON value. An exception becomes a result with `isError`.
"""


@dataclass(frozen=True, slots=True)
class _Registered:
    definition: ToolDefinition
    handler: Handler


class ToolService:
    """Tools of a program, in the order of their registration.

    Args:
        call_s: seconds that one call may take.
    """

    def __init__(self, *, call_s: float = CALL_S) -> None:
        self._tools: dict[str, _Registered] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        self._call_s = call_s

    def register_tool(self, tool: ToolDefinition, handler: Handler) -> None:
        """Add a tool.

        Raises:
            ValueError: its name is missing or taken, or its `inputSchema` is no schema of an object.
        """
        name, schema = tool.get("name"), tool.get("inputSchema")
        if not isinstance(name, str) or not name:
            raise ValueError("a tool needs a name")
        if not isinstance(schema, Mapping) or schema.get("type") != "object":
            raise ValueError(f'Tool "{name}" has no inputSchema of type object')
        if name in self._tools:
            raise ValueError(f'Tool "{name}" is already registered')
        try:
            problems_with(schema, {})
        except InvalidSchema as error:
            raise ValueError(f'Tool "{name}": {error}') from None
        self._tools[name] = _Registered(dict(tool), handler)
        self._notify()

    def unregister_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ValueError: there is none with this name.
        """
        if name not in self._tools:
            raise ValueError(f'Tool "{name}" is not registered')
        del self._tools[name]
        self._notify()

    def list_tools(self) -> list[dict[str, Any]]:
        """The definitions of all tools."""
        return [dict(tool.definition) for tool in self._tools.values()]

    async def execute_tool(self, name: str, params: Mapping[str, Any] | None = None) -> CallToolResult:
        """Check the arguments and run a tool. Its failures are results with `isError`.

        Raises:
            ToolServiceError: the tool is unknown, or the arguments do not fit (-32602).
        """
        registered = self._tools.get(name)
        if registered is None:
            text = f"Tool not found or disabled: {name}{did_you_mean(name, self._tools)}"
            raise ToolServiceError(text, INVALID_PARAMS)
        arguments = {} if params is None else params
        if problems := self._problems(registered, arguments):
            raise ToolServiceError(f"Invalid arguments for {name}: {'; '.join(problems)}", INVALID_PARAMS)
        return await self._run(registered.handler, arguments)

    def validate_tool_input(self, name: str, params: Any) -> bool:
        """Whether arguments fit a tool's JSON Schema; False for an unknown tool."""
        registered = self._tools.get(name)
        return registered is not None and not self._problems(registered, {} if params is None else params)

    async def handle_tools_list_request(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of a `tools/list` request, given whole or as its parameters.

        It is `{"tools": […], "nextCursor"?: …}`, 100 tools a page.

        Raises:
            ToolServiceError: the cursor is not one of ours (-32602).
        """
        cursor = cursor_of(request)
        if cursor is None:
            cursor = "0"
        if not isinstance(cursor, str) or not re.fullmatch("[0-9]{1,9}", cursor):
            raise invalid_cursor()
        start, tools = int(cursor), self.list_tools()
        page: dict[str, Any] = {"tools": tools[start : start + PAGE]}
        if start + PAGE < len(tools):
            page["nextCursor"] = str(start + PAGE)
        return page

    async def handle_tool_call_request(self, request: Mapping[str, Any]) -> CallToolResult:
        """The result of a `tools/call` request, given whole or as its parameters.

        Raises:
            ToolServiceError: see `execute_tool`; also if the name or the arguments have another type.
        """
        params = request.get("params", request)
        name = params.get("name") if isinstance(params, Mapping) else None
        if not isinstance(name, str):
            raise ToolServiceError("the name of the tool is missing", INVALID_PARAMS)
        return await self.execute_tool(name, params.get("arguments"))

    def on_tool_list_changed(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change of the list; returns a function that ends this."""
        key = object()
        self._listeners[key] = handler

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    registerTool = register_tool
    unregisterTool = unregister_tool
    listTools = list_tools
    executeTool = execute_tool
    validateToolInput = validate_tool_input
    handleToolsListRequest = handle_tools_list_request
    handleToolCallRequest = handle_tool_call_request

    def _problems(self, registered: _Registered, arguments: Any) -> list[str]:
        if not isinstance(arguments, Mapping):
            return ["arguments must be an object"]
        return problems_with(registered.definition["inputSchema"], arguments)

    async def _run(self, handler: Handler, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            async with asyncio.timeout(self._call_s):
                returned = await _awaited(handler(arguments))
            return result_of(returned)
        except TimeoutError:
            return error_result(f"no result within {self._call_s:g} s")
        except Exception as error:  # noqa: BLE001  whatever a tool raises is its result
            return error_result(str(error) or type(error).__name__)

    def _notify(self) -> None:
        for handler in list(self._listeners.values()):
            handler()


def cursor_of(request: Mapping[str, Any] | None) -> Any:
    """The cursor of a list request, given whole or as its parameters; None for the first page."""
    whole = request or {}
    params = whole.get("params", None if "method" in whole else whole)
    return params.get("cursor") if isinstance(params, Mapping) else None


def invalid_cursor() -> ToolServiceError:
    """The error for a cursor that no page of ours named."""
    return ToolServiceError("the cursor is not valid; list again without one", INVALID_PARAMS)


async def _awaited(returned: Any) -> Any:
    if inspect.isawaitable(returned):
        awaitable: Awaitable[Any] = returned
        return await awaitable
    return returned
