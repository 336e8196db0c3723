"""Answers the messages of the internal channel: checks the token, then runs the method.

Only `lifecycle/ping` is answered without the token. The token is known to this module only.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server import log
from workspace_server.call_context import Toolbox
from workspace_server.internal_channel.provider_config import EVERY, SCOPES
from workspace_server.internal_channel.tools import InternalTools
from workspace_server.naming import is_internal_tool, sort_key
from workspace_server.results import clean_text
from workspace_server.tool import InvalidArguments, ToolError

PING: Final = "lifecycle/ping"
UNAUTHORIZED: Final = "Unauthorized"
DIRECT: Final = {
    "secrets/get": "secrets_get",
    "secrets/store": "secrets_set",
    "secrets/delete": "secrets_delete",
    "secrets/list": "secrets_list",
    "config/get": "config_get",
    "config/set": "config_set",
    "workspace/getRoot": "workspace_root",
}
"""Methods that are other names of internal tools."""
_ENVELOPE: Final = ("auth", "_meta")
# Names here are the peer's input. The longest that mean something have 64 characters.
_MAX_SHOWN_NAME: Final = 128
_MAY_CHANGE: Final = ("secrets_set", "secrets_delete", "config_set")
Params = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """A request with the right token.

    `is_slow`: it may run for long, so later requests do not wait for it; `may_change`: it may change secrets
    or configuration.
    """

    id: bytes
    method: str
    params: Params
    is_slow: bool = False
    may_change: bool = False


@dataclass(frozen=True, slots=True)
class ImmediateAnswer:
    """The answer to a message that needs no method call: a ping or an error."""

    answer: bytes
    failed_authentication: bool = False


class InternalDispatcher:
    """Answers messages.

    Args:
        auth: the token that every request must carry.
        version: version of the product.
        tools: the internal tools.
        toolbox: the workspace's tools, as clients see them.
        folders: the folders of the workspace.
    """

    def __init__(
        self, auth: str, version: str, tools: InternalTools, toolbox: Toolbox, folders: Sequence[Path] = ()
    ) -> None:
        self._auth = auth.encode()
        self._version = version
        self._tools = tools
        self._toolbox = toolbox
        self._folders = folders
        self._methods: Mapping[str, Callable[[Params], Awaitable[Any]]] = {
            names.TOOLS_LIST: self._list,
            names.TOOLS_CALL: self._call,
            "get_llm_tools": self._for_models,
            "config/getSettings": self._settings,
            "workspace/getPaths": self._paths,
            "lifecycle/capabilities": self._capabilities,
        }

    def read(self, body: bytes) -> AuthenticatedRequest | ImmediateAnswer | None:
        """Parse one message; None if it expects no answer."""
        message = jsonrpc.parse(body)
        if isinstance(message, jsonrpc.Malformed):
            return ImmediateAnswer(jsonrpc.error(message.id, message.code, message.message))
        if not isinstance(message, jsonrpc.Request):
            return None
        if message.method == PING:
            return ImmediateAnswer(jsonrpc.result(message.id, {"ok": True, "version": self._version}))
        params = jsonrpc.members_of(message.params)
        if not self._is_token(params.get("auth")):
            return ImmediateAnswer(
                jsonrpc.error(message.id, jsonrpc.INVALID_REQUEST, UNAUTHORIZED), failed_authentication=True
            )
        called = message.method == names.TOOLS_CALL
        name = (jsonrpc.text_of(params.get("name", b"")) or "") if called else ""
        word = name.removeprefix(self._tools.prefix) if called else DIRECT.get(message.method)
        is_slow = called and not is_internal_tool(name, self._tools.prefix)
        return AuthenticatedRequest(message.id, message.method, params, is_slow, word in _MAY_CHANGE)

    async def answer(self, request: AuthenticatedRequest) -> bytes:
        """Run a request; an internal error becomes code -32603, and is logged without its text."""
        try:
            if (word := DIRECT.get(request.method)) is not None:
                sent_params = {key: value for key, value in request.params.items() if key not in _ENVELOPE}
                arguments = {key: msgspec.json.decode(value) for key, value in sent_params.items()}
                return jsonrpc.result(request.id, await self._tools.find_tool(word)(arguments))
            method = self._methods.get(request.method)
            if method is None:
                text = f"method {clean_text(request.method)[:_MAX_SHOWN_NAME]} does not exist"
                return jsonrpc.error(request.id, jsonrpc.METHOD_NOT_FOUND, text)
            return jsonrpc.result(request.id, await method(request.params))
        except InvalidArguments as refused:
            return jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, f"{refused.pointer}: {refused.message}")
        except ToolError as failed:
            return jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, failed.message)
        except Exception as fault:  # noqa: BLE001  the caller gets an answer with its id, whatever happens
            log.fault("internal_method_failed", fault)
            text = "internal error in the workspace server; see its log (lmtb log --cwd .)"
            return jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, text)

    def _is_token(self, token: msgspec.Raw | None) -> bool:
        text = None if token is None else jsonrpc.text_of(token)
        return text is not None and hmac.compare_digest(text.encode(), self._auth)

    async def _list(self, params: Params) -> dict[str, Any]:
        tool_filter = _filter(params)
        tools = [
            _shown_definition(definition, internal=True)
            for definition in self._tools.definitions()
            if tool_filter.passes(definition["name"], internal=True)
        ]
        tools += [_shown_definition(tool, internal=False) for tool in await self._for_users(tool_filter)]
        return {"tools": sorted(tools, key=lambda tool: sort_key(tool["name"]))}

    async def _for_models(self, params: Params) -> dict[str, Any]:
        """Tool definitions with exactly the members that a model is given."""
        tools = [_described(tool) for tool in await self._for_users(ToolFilter())]
        return {"tools": tools}

    async def _for_users(self, tool_filter: ToolFilter) -> list[Mapping[str, Any]]:
        return [
            offered
            for offered in await self._toolbox.listed()
            if tool_filter.passes(str(offered["name"]))
            and not is_internal_tool(str(offered["name"]), self._tools.prefix)
        ]

    async def _call(self, params: Params) -> Any:
        name = _text(params, "name")
        arguments = msgspec.json.decode(params["arguments"]) if "arguments" in params else {}
        if not isinstance(arguments, dict):
            raise InvalidArguments("/arguments", "expected object")
        if is_internal_tool(name, self._tools.prefix):
            return await self._call_internal(name, arguments)
        answer = await self._toolbox.call(name, arguments)
        if "result" in answer:
            return answer["result"]
        return _failure_result(_reason(answer.get("error") or {}, name))

    async def _call_internal(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            return _failure_result(f"Unknown internal tool: {clean_text(name)[:_MAX_SHOWN_NAME]}")
        try:
            result = await tool(arguments)
        except InvalidArguments as refused:
            return _failure_result(f"invalid arguments for {name}: {refused.pointer}: {refused.message}")
        except ToolError as failed:
            return _failure_result(failed.message)
        # not cleaned: a secret must be returned unchanged
        text = jsonrpc.dumps(result).decode()
        return {"content": [{"type": "text", "text": text}], "structuredContent": result, "isError": False}

    async def _settings(self, params: Params) -> dict[str, Any]:
        """All providers of one scope, or of both with the user's first."""
        scopes = SCOPES if "scope" not in params else (_text(params, "scope"),)
        providers: list[Any] = []
        for scope in scopes:
            result = await self._tools.find_tool("config_get")({"provider": EVERY, "scope": scope})
            providers += result["providers"]
        return {"providers": providers}

    async def _paths(self, params: Params) -> dict[str, Any]:
        return {"paths": [str(folder) for folder in self._folders]}

    async def _capabilities(self, params: Params) -> dict[str, Any]:
        return {"capabilities": {"secrets": True, "config": True, "workspace": True}}


def _filter(params: Params) -> ToolFilter:
    internal = msgspec.json.decode(params["includeInternal"]) if "includeInternal" in params else True
    if not isinstance(internal, bool):
        raise InvalidArguments("/includeInternal", "expected boolean")
    tool_filter = ToolFilter().with_internal() if internal else ToolFilter()
    if "exclude" in params:
        tool_filter = tool_filter.with_exclude(_texts(params, "exclude"))
    return tool_filter.with_include(_texts(params, "include")) if "include" in params else tool_filter


def _text(params: Params, member: str) -> str:
    text = jsonrpc.text_of(params[member]) if member in params else None
    if text is None:
        raise InvalidArguments(f"/{member}", "expected string")
    return text


def _texts(params: Params, member: str) -> list[str]:
    try:
        return msgspec.json.decode(params[member], type=list[str])
    except msgspec.DecodeError:
        raise InvalidArguments(f"/{member}", "expected an array of strings") from None


def _described(definition: Mapping[str, Any]) -> dict[str, Any]:
    described = str(definition.get("description") or "")
    return {"name": definition["name"], "description": described, "inputSchema": definition["inputSchema"]}


def _shown_definition(definition: Mapping[str, Any], *, internal: bool) -> dict[str, Any]:
    return {**_described(definition), "_internal": internal}


def _failure_result(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Error: {message}"}], "isError": True}


def _reason(error: Mapping[str, Any], name: str) -> str:
    data = error.get("data")
    if isinstance(data, Mapping) and data.get("reason") == "tool_not_found":
        return f"Tool not found: {clean_text(name)[:_MAX_SHOWN_NAME]}"
    return str(error.get("message") or "the call failed")


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A filter of tools by name; by default it passes enabled tools that are not internal.

    Attributes:
        internal: whether internal tools may pass.
        disabled: whether tools that are not enabled may pass.
        exclude: names that never pass.
        include: if not None, only these names pass; an empty set lets nothing through.
    """

    internal: bool = False
    disabled: bool = False
    exclude: frozenset[str] = frozenset()
    include: frozenset[str] | None = None

    @classmethod
    def all(cls) -> ToolFilter:
        """Internal and disabled tools, too."""
        return cls(internal=True, disabled=True)

    def with_internal(self) -> ToolFilter:
        """A copy that passes internal tools, too."""
        return replace(self, internal=True)

    def with_exclude(self, names: Iterable[str]) -> ToolFilter:
        """A copy that also excludes these names."""
        return replace(self, exclude=self.exclude | frozenset(names))

    def with_include(self, names: Iterable[str]) -> ToolFilter:
        """A copy that passes these names only, in addition to names included before."""
        return replace(self, include=(self.include or frozenset()) | frozenset(names))

    def passes(self, name: str, *, internal: bool = False, enabled: bool = True) -> bool:
        """Whether a tool passes; checks internal, enabled, exclude and include in this order."""
        if internal and not self.internal:
            return False
        if not enabled and not self.disabled:
            return False
        return name not in self.exclude and (self.include is None or name in self.include)
