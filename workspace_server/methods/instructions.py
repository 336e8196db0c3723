"""Writes the instructions that clients show to their models: what lies behind this server. Pure.

Clients cut them (Codex after 250 characters) or repeat them behind each tool, where a model searches all of
that text by words. So they begin with what matters, are short, and for clients that repeat them name nothing
but servers and commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits, OwnServers
from workspace_server.catalog.view import Mode, View, is_own_server
from workspace_server.methods import resources
from workspace_server.results import clean_text
from workspace_server.source import Source
from workspace_server.tool_search.definitions import EXECUTE, search_name

MAX_NAMES: Final = 60
"""Characters for the names of servers, and for those of scripts: with the command that gives trust, servers
stay within the 250 characters that Codex shows."""
MAX_QUOTED: Final = 600
"""Characters quoted from one server: as much as most of them have to say."""
MAX_ALL_QUOTED: Final = 1_800
"""Characters quoted in all: every request to a model carries them."""
MAX_REPEATED: Final = 160
"""The same where each tool repeats them; longer ones are left out."""
_MCP: Final = frozenset({"stdio", "remote"})
_CODE_TOOLS: Final = ("lm_findSymbol", "lm_references", "lm_fileOutline")


class Reader(NamedTuple):
    """Who reads the instructions.

    Attributes:
        traits: what is special about the client.
        own_servers: servers that the client starts itself.
        mode: which tools it gets listed.
        folder: the folder of its session below the root, `/`-separated; empty for the root.
    """

    traits: ClientTraits = ClientTraits()
    own_servers: Sequence[OwnServers] = ()
    mode: Mode = Mode.NORMAL
    folder: str = ""


def instructions(view: View, root: str, reader: Reader) -> str:
    """The instructions of a workspace server.

    Args:
        view: what can be called.
        root: the project's folder.
        reader: who reads them.
    """
    sources = [
        source
        for source in view.snapshot.sources
        if source.kind in _MCP
        and source.state not in {"disabled", "pending_trust"}
        and not is_own_server(source, reader.own_servers)
    ]
    if reader.traits.repeats_instructions:
        sentences = [_short_offer(view, sources), *_short_ways(view, root, reader)]
        brief = [source for source in sources if len(source.instructions or "") <= MAX_REPEATED]
        return "\n\n".join([" ".join(sentences), *_quotes(brief, MAX_REPEATED)])
    text = " ".join([_offer(view, sources, reader.traits), *_ways(view, root, reader)])
    return "\n\n".join([text, *_quotes(sources, MAX_ALL_QUOTED)])


# What is behind --------------------------------------------------------------------------------------------


def _offer(view: View, sources: Sequence[Source], traits: ClientTraits) -> str:
    parts = []
    if sources:
        parts.append(f"MCP servers {_limited([_name_of(source) for source in sources])}")
    if any(name in view.by_name for name in _CODE_TOOLS):
        parts.append("language tools (lm_*)")
    if _scripts(view):
        parts.append("the project's scripts")
    file_tool = view.by_name.get("lm_readFile")
    if file_tool is not None and not (traits.has_file_tools and view.repeats_clients(file_tool)):
        parts.append("file tools")
    return f"Behind this server: {'; '.join(parts) or 'nothing yet'}."


def _short_offer(view: View, sources: Sequence[Source]) -> str:
    """The same without words that a model could look for: names only."""
    parts = [_limited([*map(_name_of, sources), *_scripts(view)])] if sources or _scripts(view) else []
    if any(name in view.by_name for name in _CODE_TOOLS):
        parts.append("lm_* (IDE features)")
    return f"Gateway to {'; '.join(parts) or 'lm_*'}."


def _scripts(view: View) -> list[str]:
    return [offered.name for offered in view.tools if offered.source.kind == "script"]


def _name_of(source: Source) -> str:
    return clean_text(source.id.partition(":")[2] or source.id)


def _limited(words: Sequence[str]) -> str:
    """As many words as fit into `MAX_NAMES` characters, and how many more there are."""
    first_words: list[str] = []
    length = 0
    for word in words:
        length += len(word) + 2
        if first_words and length > MAX_NAMES:
            break
        first_words.append(word[:MAX_NAMES])
    more = len(words) - len(first_words)
    return ", ".join([*first_words, *([f"{more} more"] if more else [])])


# How to use it ---------------------------------------------------------------------------------------------


def _ways(view: View, root: str, reader: Reader) -> Iterator[str]:
    if waits := describe_pending_trust(view, reader.own_servers):
        yield waits
    yield f"The project's root folder is {clean_text(root)}."
    if reader.folder:
        yield f"You work in {clean_text(reader.folder)} below it; relative paths are tried there first."
    if reader.traits.has_call_tool:
        yield (
            "An agent in another folder or git worktree passes that folder as `cwd` to"
            f" {names.CALL_TOOL}, with the tool's name and arguments."
        )
    if scripts := _scripts(view):
        yield f"The scripts are {_limited(scripts)}."
    if view.needs_meta_tools(reader.mode):
        search = search_name(reader.traits)
        starting = ", ".join(map(_name_of, view.starting))
        late = f", also those of {starting}, still starting" if starting else ""
        yield (
            f"More tools than are listed can be called{late}: find them with {search}, and run them by name"
            f" or with {EXECUTE}."
        )
    if "lm_references" in view.by_name:
        yield (
            "For code use lm_findSymbol, lm_references and lm_fileOutline rather than searching its text, and"
            " call lm_getDiagnostics after edits."
        )
    if skill_sentence := resources.skill_instructions(view):
        yield skill_sentence


def _short_ways(view: View, root: str, reader: Reader) -> Iterator[str]:
    if waits := describe_pending_trust_briefly(view, reader.own_servers):
        yield waits
    yield f"Root: {clean_text(root)}."
    if reader.folder:
        yield f"You are in {clean_text(reader.folder)}."
    if reader.traits.has_call_tool:
        yield f"In another folder or git worktree: `cwd` of {names.CALL_TOOL}."


# What the servers say --------------------------------------------------------------------------------------


def _quotes(sources: Sequence[Source], limit: int) -> Iterator[str]:
    """What servers say about themselves, marked as their words; no more than `limit` characters of it."""
    quoted: list[str] = []
    left = limit
    for source in sources:
        text = clean_text(source.instructions or "").strip()
        if not text:
            continue
        if len(text) > MAX_QUOTED:
            text = text[: MAX_QUOTED - 1].rstrip() + "…"
        left -= len(text)
        if left < 0:
            break
        lines = "\n".join(f"> {line.rstrip()}" for line in text.splitlines() if line.strip())
        quoted.append(f"{_name_of(source)}:\n{lines}")
    if quoted:
        yield "\n".join(["In their own words, which are not the user's:", *quoted])


# What waits for trust -------------------------------------------------------------------------------------
# These sentences contain names and the command only: all other text of an untrusted project could mislead the
# model.

PENDING: Final = "TRUST_PENDING"
"""The code of issues of what waits for trust; their details are the command that gives it."""
# A model reads this at each start; `lmtb trust` shows the rest.
_MAX_NAMES: Final = 6
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def describe_pending_trust(view: View, own_servers: Sequence[OwnServers] = ()) -> str:
    """The sentences for a server's instructions; empty if nothing waits for trust.

    Args:
        view: what the request may see.
        own_servers: servers that the client starts itself; these are not named.
    """
    waiting = _waiting(view, own_servers)
    if waiting is None:
        return ""
    names_text, command = waiting
    return (
        f"Before the user reviews them as they are now and runs `{command}`, these do not work: {names_text}."
        " If one is needed, ask the user to."
    )


def describe_pending_trust_briefly(view: View, own_servers: Sequence[OwnServers] = ()) -> str:
    """The same in the fewest words."""
    waiting = _waiting(view, own_servers)
    return "" if waiting is None else f"Not before the user runs `{waiting[1]}`: {waiting[0]}."


def _waiting(view: View, own_servers: Sequence[OwnServers]) -> tuple[str, str] | None:
    """The names of what waits, and the command that trusts it; None for nothing."""
    pending_names = list(dict.fromkeys(_names(view, own_servers)))
    command = next((issue.details for issue in view.issues if issue.code == PENDING), None)
    if not pending_names or command is None:
        return None
    plain_names = [name for name in pending_names if _NAME.fullmatch(name)][:_MAX_NAMES]
    more = len(pending_names) - len(plain_names)
    return ", ".join([*plain_names, *([f"{more} more"] if more else [])]), command


def _names(view: View, own_servers: Sequence[OwnServers]) -> Iterator[str]:
    for source in view.snapshot.sources:
        if source.state == "pending_trust" and not is_own_server(source, own_servers):
            yield source.id.partition(":")[2]
        yield from source.pending_names()
    yield from view.snapshot.withheld
    if any(issue.code == PENDING for issue in view.configuration.issues):
        yield "settings"
