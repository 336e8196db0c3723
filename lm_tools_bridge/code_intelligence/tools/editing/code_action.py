"""The tool `lm_codeAction`: lists the fixes and refactorings for some lines, and applies one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import LanguageServer, Unavailable
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting, list_of
from lm_tools_bridge.code_intelligence.tools.editing import edit_results
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import Proposal
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import Position, to_server
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

MAX_ACTIONS: Final = 200
"""Servers offer a few dozen at one place; a model reads no more than that."""
DIAGNOSTICS_S: Final = 5.0
"""What a server gets to check the file: its fixes hang on the diagnostics, other actions do not."""
_METHOD: Final = "textDocument/codeAction"
_RESOLVE: Final = "codeAction/resolve"


@dataclass(frozen=True, slots=True)
class _Action:
    server: LanguageServer
    freshness: Freshness
    raw: Mapping[str, Any]

    @property
    def title(self) -> str:
        return " ".join(clean_text(str(self.raw.get("title", ""))).split())[:300]

    @property
    def kind(self) -> str:
        kind = self.raw.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def disabled(self) -> str | None:
        reason = self.raw.get("disabled")
        return clean_text(str(reason.get("reason", ""))) if isinstance(reason, Mapping) else None


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """List the actions, or do one.

    Raises:
        InvalidArguments: at `/filePath`, `/line`, `/endLine` or `/action`.
        ToolError: no server offers actions, or the action cannot be applied.
    """
    begun = time.time_ns()
    path = await asyncio.to_thread(workplace.file, arguments["filePath"])
    waiting = Waiting(wait_s(arguments), context)
    servers, unavailable = await _servers(workplace, path, waiting)
    if not servers:
        raise asking.no_server(unavailable, workplace.shown_path(path))

    async def work(server: LanguageServer) -> list[Mapping[str, Any]]:
        params = await _params(server, path, arguments)
        return list_of(await server.request(_METHOD, params))[:MAX_ACTIONS]

    # outside of the servers' tasks, where it would be a fault
    texts = await workplace.texts()
    _check_lines(await servers[0].open(path), arguments)
    parts = await asking.ask_all(servers, work, waiting, settles=False)
    actions = await asyncio.to_thread(_shown_actions, parts, texts, path)
    if "action" not in arguments:
        return _list_actions(actions, [part.freshness for part in parts], unavailable)
    action = _choose_action(actions, arguments["action"])
    proposal = Proposal(
        "Code action summary",
        await _edit(action),
        action.server.encoding,
        begun,
        action.freshness,
        unavailable,
        {"action": action.title},
        [f"action: {action.title}"],
    )
    return await edit_results.finish(workplace, proposal, texts, apply=arguments.get("apply", False))


def _shown_actions(parts: Sequence[Part[list[Mapping[str, Any]]]], texts: Texts, path: Path) -> list[_Action]:
    """The actions whose titles may be shown. Blocks: files behind links of the project are read."""
    return [
        _Action(part.server, part.freshness, raw)
        for part in parts
        for raw in part.value or ()
        if isinstance(raw.get("title"), str) and texts.may_say(raw["title"], [path])
    ]


async def _servers(
    workplace: Workplace, path: Path, waiting: Waiting
) -> tuple[list[LanguageServer], list[Unavailable]]:
    """All servers for the file, of both roles: linters have actions, too."""
    servers = [
        *await workplace.servers.for_file(path, "symbols", wait_s=waiting.left_s),
        *await workplace.servers.for_file(path, "diagnostics", wait_s=waiting.left_s),
    ]
    running, unavailable = asking.split(list({each.specification.name: each for each in servers}.values()))
    return [server for server in running if server.supports(_METHOD)], unavailable


def _check_lines(lines: Sequence[str], arguments: Mapping[str, Any]) -> None:
    first, last = int(arguments.get("line", 1)), int(arguments.get("endLine", arguments.get("line", 1)))
    if first > len(lines):
        raise InvalidArguments("/line", f"the file has {len(lines)} lines")
    if not first <= last <= len(lines):
        raise InvalidArguments("/endLine", f"must lie between line and {len(lines)}")


async def _params(server: LanguageServer, path: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    lines = await server.open(path)
    first = min(int(arguments.get("line", 1)), len(lines))
    last = min(int(arguments.get("endLine", first)), len(lines))
    where = {
        "start": to_server(Position(first, 1), lines, server.encoding),
        "end": to_server(Position(last, len(lines[last - 1]) + 1), lines, server.encoding),
    }
    answer = await server.diagnostics([path], DIAGNOSTICS_S)
    diagnostics = [raw for file in answer.files if file.path == path for raw in file.diagnostics]
    near = [raw for raw in diagnostics if _touches(raw.get("range"), first - 1, last - 1)]
    kinds = arguments.get("kinds")
    only = {} if kinds is None else {"only": list(kinds)}
    return {
        "textDocument": {"uri": to_uri(path)},
        "range": where,
        "context": {"diagnostics": near, "triggerKind": 1, **only},
    }


def _touches(where: Any, first: int, last: int) -> bool:
    try:
        return bool(where["start"]["line"] <= last and where["end"]["line"] >= first)
    except (TypeError, KeyError):
        return False


def _list_actions(
    actions: Sequence[_Action], freshness: Sequence[Freshness], unavailable: Sequence[Unavailable]
) -> ToolResult:
    entries = [
        Entry(
            {
                "title": action.title,
                "kind": action.kind,
                "preferred": action.raw.get("isPreferred") is True,
                "provider": action.server.specification.name,
                **({"disabled": action.disabled} if action.disabled is not None else {}),
            },
            (
                action.title,
                f"{action.kind or 'action'} ({action.server.specification.name})" + _remark(action),
            ),
        )
        for action in actions
    ]
    offers = Listing("Code actions summary", "actions", entries, freshness, unavailable)
    return listing.result(offers, {}, MAX_ACTIONS)


def _remark(action: _Action) -> str:
    if action.disabled is not None:
        return f", not possible: {action.disabled}"
    return ", preferred" if action.raw.get("isPreferred") is True else ""


def _choose_action(actions: Sequence[_Action], title: str) -> _Action:
    words = " ".join(title.split()).casefold()
    exact = [action for action in actions if action.title.casefold() == words]
    fitting = exact or [action for action in actions if words in action.title.casefold()]
    titles = "; ".join(action.title for action in actions[:10]) or "none"
    if not fitting:
        raise InvalidArguments("/action", f"there is no such action here. There are: {titles}")
    if len({action.title for action in fitting}) > 1:
        raise InvalidArguments(
            "/action", f"several actions fit: {'; '.join(action.title for action in fitting[:10])}"
        )
    if fitting[0].disabled is not None:
        raise ToolError(f"{fitting[0].title} is not possible: {fitting[0].disabled}")
    return fitting[0]


async def _edit(action: _Action) -> Any:
    """The `WorkspaceEdit` of an action, which servers may make only when it is asked for."""
    raw = action.raw
    if "edit" not in raw and action.server.supports(_RESOLVE):

        async def work(server: LanguageServer) -> Any:
            return await server.request(_RESOLVE, raw)

        part = await asking.ask(action.server, work, Waiting(0.0, CallContext()), settles=False)
        raw = part.value if isinstance(part.value, Mapping) else raw
    if raw.get("edit") is None:
        name = action.server.specification.name
        raise ToolError(
            f"{action.title} runs a command inside {name}, which is not supported. No file was changed"
        )
    return raw["edit"]
