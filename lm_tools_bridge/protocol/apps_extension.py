"""MCP Apps (SEP-1865): names, the capability of clients, and what a tool says of its app. Pure.

A tool with `_meta.ui` has an app: a page at a `ui://` address. The client shows it, and it calls tools of its
server by the server's own names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

EXTENSION: Final = "io.modelcontextprotocol/ui"
PAGE_TYPE: Final = "text/html;profile=mcp-app"
CLIENT_CAPABILITY: Final[Mapping[str, Any]] = {"mimeTypes": [PAGE_TYPE]}
"""What a client that shows apps declares as the extension's settings."""
CLIENT_EXTENSIONS: Final[Mapping[str, Any]] = {EXTENSION: CLIENT_CAPABILITY}
SCHEME: Final = "ui://"
_FLAT: Final = "ui/resourceUri"
"""The deprecated member of `_meta` for a tool's page; helpers of servers still write it beside `ui`."""
_APP: Final = "app"
_MODEL: Final = "model"
_IDENTITY_NAME: Final = re.compile(r"__([0-9a-f]{12})_.+", re.DOTALL)


class ToolUi(NamedTuple):
    """What a tool says of its app.

    Attributes:
        page: the address of the page that shows its results; None for a tool that only apps use.
        for_model: whether models may call it.
        for_app: whether apps of its server may call it.
    """

    page: str | None
    for_model: bool
    for_app: bool

    @property
    def is_app_only(self) -> bool:
        """Whether it must be kept from models."""
        return not self.for_model


def is_declared(capabilities: Mapping[str, Any]) -> bool:
    """Whether these decoded capabilities, of a client or a server, include apps."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)


def without_apps(capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """The capabilities without apps."""
    if not is_declared(capabilities):
        return capabilities
    extensions = {name: value for name, value in capabilities["extensions"].items() if name != EXTENSION}
    return {**capabilities, "extensions": extensions}


def tool_ui(definition: Mapping[str, Any]) -> ToolUi | None:
    """What a tool's definition says of its app; None for a tool without one."""
    meta = definition.get("_meta")
    if not isinstance(meta, Mapping):
        return None
    ui = meta.get("ui")
    members = ui if isinstance(ui, Mapping) else {}
    page = members.get("resourceUri", meta.get(_FLAT))
    if not isinstance(page, str):
        page = None
    if page is None and not isinstance(ui, Mapping):
        return None
    readers = members.get("visibility")
    if not isinstance(readers, list):
        readers = [_MODEL, _APP]  # the default of the specification
    return ToolUi(page, _MODEL in readers, _APP in readers)


def with_page(definition: Mapping[str, Any], page: str) -> Mapping[str, Any]:
    """The definition of a tool with another address of its page, wherever it names one."""
    meta = dict(definition["_meta"])
    if isinstance(meta.get("ui"), Mapping) and "resourceUri" in meta["ui"]:
        meta["ui"] = {**meta["ui"], "resourceUri": page}
    if _FLAT in meta:
        meta[_FLAT] = page
    return {**definition, "_meta": meta}


def without_ui(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition of a tool without its app."""
    meta = definition.get("_meta")
    if not isinstance(meta, Mapping) or meta.keys().isdisjoint(("ui", _FLAT)):
        return definition
    rest = {name: value for name, value in meta.items() if name not in ("ui", _FLAT)}
    members = {name: value for name, value in definition.items() if name != "_meta"}
    return {**members, "_meta": rest} if rest else members


def identity(definition: Mapping[str, Any]) -> str | None:
    """The identity that FastMCP gives the tool of an app; None for any other tool."""
    meta = definition.get("_meta")
    own = meta.get("fastmcp") if isinstance(meta, Mapping) else None
    digits = own.get("tool_hash") if isinstance(own, Mapping) else None
    return digits if isinstance(digits, str) else None


def named_identity(name: str) -> str | None:
    """The identity in a name by which apps of FastMCP call their tools, `__IDENTITY_NAME`; else None."""
    match = _IDENTITY_NAME.fullmatch(name)
    return None if match is None else match[1]


def authority(address: str) -> str:
    """The authority of a `ui://` address: what stands before its path."""
    return address.removeprefix(SCHEME).partition("/")[0]


def moved(address: str, server: str) -> str:
    """The address of a server whose own one another server has: with the server's name in its authority."""
    return f"{SCHEME}{server}+{address.removeprefix(SCHEME)}"


def unmoved(address: str, server: str) -> str | None:
    """The server's own address of one that `moved` made for it; None for any other."""
    prefix = f"{SCHEME}{server}+"
    return SCHEME + address.removeprefix(prefix) if address.startswith(prefix) else None
