"""One `tools/call` on its way: who asked, under which view, and for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from protocol import headers, names
from workspace_server.call_context import CallContext, never_parked, nobody
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.tool import Tool

_OWN_MEMBERS: Final = frozenset({"name", "arguments"})
_ANSWERS: Final = frozenset({"inputResponses", "requestState"})


class Call(msgspec.Struct, frozen=True):
    """A call.

    `arguments` is JSON text. `is_direct` is whether the request itself names the tool, so that mirrored
    headers must agree with its arguments. `depth` counts the tools this call was made from, and `within` is
    the context of the one that did; whoever called that one is told and asked.
    """

    asked: McpRequest
    view: View
    name: str
    arguments: msgspec.Raw
    is_direct: bool = True
    depth: int = 0
    within: CallContext | None = None

    def of(self, name: str, arguments: msgspec.Raw) -> Call:
        """The call of another tool that this one stands for."""
        return replace(self, name=name, arguments=arguments, is_direct=False)

    def offered(self) -> OfferedTool | None:
        """The tool, if it can be called.

        One that a source does not list and may run all the same is among them; only the source can
        check its arguments.
        """
        offered = self.view.get(self.name)
        if offered is not None:
            return offered
        found = self.view.hidden_behind(self.name)
        if found is None:
            return None
        source, own = found
        tool = Tool(own, {"name": self.name, "inputSchema": {"type": "object"}})
        return OfferedTool(self.name, tool, source, tool.definition)

    def longest_s(self, offered: OfferedTool) -> float:
        """How many seconds it may take at most, if this is its tool."""
        return offered.tool.timeout_s or self.view.configuration.call_timeout_s

    def context(self) -> CallContext:
        """What the tool's source knows of the call; the toolbox is added by who runs it."""
        # answers the client brought are for the call it made, not for those that a script makes
        withheld = _OWN_MEMBERS if self.depth == 0 else _OWN_MEMBERS | _ANSWERS
        meta = self.asked.inbound.meta
        name = _decoded(meta.get(names.META_CLIENT)).get("name")
        return CallContext(
            notify=self.asked.notify if self.within is None else self.within.notify,
            ask=nobody if self.within is None else self.within.ask,
            is_parked=never_parked if self.within is None else self.within.is_parked,
            arguments=self.arguments,
            params={key: raw for key, raw in self.asked.inbound.params.items() if key not in withheld},
            caller=self.asked.header.get(headers.CALLER, ""),
            client=name if isinstance(name, str) else "",
            capabilities=_decoded(meta.get(names.META_CAPABILITIES)),
        )


def _decoded(raw: msgspec.Raw | None) -> Mapping[str, Any]:
    value = None if raw is None else msgspec.json.decode(raw)
    return value if isinstance(value, Mapping) else {}
