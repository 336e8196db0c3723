"""Finds the tool that an app means, and remembers which apps a session has opened (MCP Apps, SEP-1865).

An app knows its tools and its data by the names that its server gave them. Clients send these names on as
they are, and see one server here: where several servers have a name, the app that was opened last is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.calls.call import Call
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.app_addresses import server_name
from workspace_server.catalog.registry import OfferedTool

MAX_SESSIONS: Final = 1000
"""Sessions whose apps are remembered; a manager keeps a few hundred. The one that opened none for the longest
time is forgotten first."""


class OpenedApps:
    """Which servers' apps each session has opened, in order. A restart forgets them."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, None]] = {}

    def note(self, request: McpRequest, source: str) -> None:
        """Remember that the session of a request opened an app of a source. Others cannot be told apart."""
        caller = request.header.get(headers.CALLER, "")
        if not caller:
            return
        opened = self._sources.pop(caller, {})
        opened.pop(source, None)
        opened[source] = None
        self._sources[caller] = opened
        if len(self._sources) > MAX_SESSIONS:
            del self._sources[next(iter(self._sources))]

    def last(self, request: McpRequest, sources: Collection[str]) -> str | None:
        """The one of these sources whose app the session of a request opened last; None if it opened none."""
        opened = self._sources.get(request.header.get(headers.CALLER, ""), ())
        return next((source for source in reversed(tuple(opened)) if source in sources), None)

    def find_call(self, call: Call) -> Call | Rejection:
        """The call with the offered name of the tool that an app means, or the error if that is open.

        Any other call stays as it is, and one that opens an app is noted.
        """
        if call.view.apps is None or not call.rules.may_be_app:
            return call
        if (offered := call.find_tool()) is not None:
            if call.view.apps.has_page(offered.name):
                self.note(call.request, offered.source.id)
            return call
        matches = call.view.apps.meant(call.name)
        if len(matches) > 1:
            last = self.last(call.request, {offered.source.id for offered in matches})
            matches = [offered for offered in matches if offered.source.id == last] or matches
        if len(matches) > 1:
            return _ambiguous(call, matches)
        return replace(call, name=matches[0].name) if matches else call


def _ambiguous(call: Call, matches: Sequence[OfferedTool]) -> Rejection:
    client_names = call.view.names_for(call.request.name_rules)
    tool_names = [
        offered.name if client_names is None else client_names.shown_name(offered.name) for offered in matches
    ]
    servers = " and ".join(server_name(offered.source.id) for offered in matches)
    message = f"Apps of {servers} have a tool {call.name}, and it is not known which app calls it"
    step = f"open the app again, or use {' or '.join(tool_names)}"
    return call.request.refuse(Refusal(Reason.TOOL_NOT_FOUND, message, step, details={"nearest": tool_names}))
