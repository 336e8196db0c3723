"""Tells whether an entry of a server only moved to another file of its project since it was trusted. Pure.

`lmtb adopt` and its undo move entries between clients' files and `workspace.toml`, and people do so by hand.
What was trusted stays trusted if the same command runs with the same variables and the same bytes. Only
entries that every such file understands alike count: a key or placeholder that one of the files reads
differently could turn what was trusted into something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.protocol.internal import client_files
from workspace_server.config.load import WORKSPACE_FILE
from workspace_server.trust.item import TrustItem, texts_in

_KEYS: Final = frozenset({"namespace", "command", "args", "env", "type", "transport", "url", "headers"})
"""The keys that mean the same in all files."""
_NAMES: Final = frozenset({"namespace", "command", "args", "type", "transport"})
"""Those that are written in different ways."""
_KINDS: Final = frozenset({None, "stdio", "local", "http", "streamable-http", "sse"})
_BARE: Final = re.compile(r"\$\{[A-Za-z_]\w*(?::-[^${}]*)?\}")
"""`${NAME}` and `${NAME:-default}`, which some clients do not expand."""
_EVERYWHERE: Final = frozenset({WORKSPACE_FILE, *(file.path for file in client_files.PROJECT_FILES)})
_WITH_BARE: Final = frozenset(
    {WORKSPACE_FILE, *(file.path for file in client_files.PROJECT_FILES if file.bare)}
)


def files_of_same_meaning(entry: Mapping[str, Any]) -> frozenset[str]:
    """The files in which an entry, as it is written, means the same; none if that is not certain."""
    if not entry.keys() <= _KEYS or entry.get("namespace") == "" or not _kinds(entry) <= _KINDS:
        return frozenset()
    texts = [*texts_in(list(entry.values()))]
    rest = [_BARE.sub("", text) for text in texts]
    if any("$" in text or "{env:" in text or text.startswith("~") for text in rest):
        return frozenset()
    return _EVERYWHERE if rest == texts else _WITH_BARE


def has_only_moved(facts: Mapping[str, Any], hashes: Mapping[str, str], item: TrustItem) -> bool:
    """Whether what was recorded, in another file, starts or connects to exactly what the item does.

    Args:
        facts, hashes: the recorded facts, and the SHA-256 of each recorded file.
        item: the item now.
    """
    places = {facts.get("from"), item.facts.get("from")}
    if not places <= item.same_in:
        return False
    if hashes != item.hashes():
        return False
    return without_place(facts) == without_place(item.facts)


def without_place(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without the file of the entry, and the entry in one form whichever file it is written in."""
    written = facts.get("written")
    if not isinstance(written, Mapping):
        return dict(facts)
    rest = {key: value for key, value in written.items() if key not in _NAMES}
    start = {"command": _command(written), "is sse": "sse" in _kinds(written), "rest": rest}
    return {**{key: value for key, value in facts.items() if key != "from"}, "written": start}


def _command(written: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for part in (written.get("command", []), written.get("args", [])):
        words += map(str, part) if isinstance(part, list | tuple) else [str(part)]
    return words


def _kinds(entry: Mapping[str, Any]) -> set[Any]:
    """What an entry says of its kind; several, or one that is no text, are not comparable."""
    kinds = [entry[key] for key in ("type", "transport") if key in entry]
    return {kind if isinstance(kind, str) else "" for kind in kinds} if len(kinds) < 2 else {""}
