"""Names tools as one client needs them, and finds the tool that a call by any name means or may mean. Pure.

A client may leave out tools whose names have `__`, or cut long names
(`lm_tools_bridge/protocol/internal/client_traits.py`). It gets other names, and may call a tool by these or
by the offered one. A spelling that could mean two tools calls neither. Our own tools keep their
names, and no other tool takes one of these.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol.internal.client_traits import AS_OFFERED, SEPARATOR, NameRules
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog.registry import OfferedTool

# The comparison takes quadratic time. Offered names have 64 characters at most, so more says nothing.
MAX_LENGTH: Final = 128
# A model reads them all in a refusal, and rarely means the fifth.
LIMIT: Final = 5
_SAME_WORD: Final = 0.75
"""Similarity from which two words are spellings of one."""
# Below it, names share letters by chance.
_CUTOFF: Final = 0.5
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEPARATOR: Final = "__"


def near_names(name: str, offered_names: Iterable[tuple[str, str]]) -> list[str]:
    """Up to five known names, the most similar first.

    The tool parts decide, without namespaces: all words of one must occur, perhaps misspelt, in the other.
    So `read_graph` never suggests `create_branch`, however many letters they share.

    Args:
        name: the unknown name.
        offered_names: each offered name, with the tool's own name at its source.
    """
    name = name[:MAX_LENGTH]
    part = name.partition(_SEPARATOR)[2] or name
    scored: list[tuple[float, str]] = []
    for offered, own in offered_names:
        pairs = [(part, own)] if part != name else [(name, own), (name, offered)]
        if any(_is_same_deed(unknown, candidate) for unknown, candidate in pairs):
            score = max(_similarity(name.lower(), offered.lower()), *(_similarity(*pair) for pair in pairs))
            scored.append((score, offered))
    scored.sort(key=lambda entry: (-entry[0], entry[1]))
    return [offered for score, offered in scored if score >= _CUTOFF][:LIMIT]


def _is_same_deed(unknown: str, candidate: str) -> bool:
    mine, theirs = _words(unknown), _words(candidate)
    if not mine or not theirs:
        return False
    return "".join(mine) == "".join(theirs) or _contains(mine, theirs) or _contains(theirs, mine)


def _contains(words: Sequence[str], others: Sequence[str]) -> bool:
    return all(any(_similarity(word, other) >= _SAME_WORD for other in others) for word in words)


def _words(name: str) -> list[str]:
    """The words of a name in snake, kebab or camel case, in lower case."""
    text = name.lower() if name.isupper() else name
    return [word.lower() for word in _WORD.findall(text)]


def _similarity(word: str, other: str) -> float:
    return 1.0 if word == other else difflib.SequenceMatcher(None, word, other).ratio()


_DIGITS: Final = 8
"""Hex digits that tell shortened names apart, as in `naming.py`."""
_UNDERSCORES: Final = re.compile("__+")


class ClientNames:
    """The names of the tools of one view for clients with the same rules.

    Args:
        tools: the tools that can be called.
        prefixes: the prefixes of the sources, for tools that are not listed yet.
        rules: what the clients need.

    Attributes:
        issues: the tools whose names would be the same for these clients.
    """

    def __init__(self, tools: Sequence[OfferedTool], prefixes: Iterable[str], rules: NameRules) -> None:
        own = naming.RESERVED_NAMES | {
            offered.name for offered in tools if offered.source.kind in naming.OWN_KINDS
        }
        changed = {offered.name: _changed(offered.name, rules) for offered in tools}
        self._prefixes: dict[str, list[str]] = {}
        for prefix in filter(None, prefixes):
            self._prefixes.setdefault(_joined(prefix, rules), []).append(prefix)
        self._shown = _apart(changed, own, rules)
        self._meant: dict[str, list[str]] = {}
        for name, spelling in changed.items():
            for alias in {name, spelling, self._shown[name]}:
                if alias == name or alias not in own:
                    self._meant.setdefault(alias, []).append(name)
        self.issues = tuple(
            _issue(spelling, names, self._shown)
            for spelling, names in sorted(self._meant.items())
            if len(names) > 1
        )

    def shown_name(self, name: str) -> str:
        """The name under which these clients get the tool with this offered name."""
        return self._shown.get(name, name)

    def rename_definitions(self, definitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """The definitions under these clients' names, in list order."""
        renamed = [{**tool, "name": self.shown_name(tool["name"])} for tool in definitions]
        return sorted(renamed, key=lambda tool: naming.sort_key(tool["name"]))

    def meant(self, name: str) -> Sequence[str]:
        """The offered names of the tools that a call by this name can mean.

        More than one if that is open. For a name that no tool has, the one that a tool of a source without a
        list would have.
        """
        return self._meant.get(name) or (self._with_offered_prefix(name),)

    def _with_offered_prefix(self, name: str) -> str:
        joined = max((prefix for prefix in self._prefixes if name.startswith(prefix)), key=len, default="")
        offered = self._prefixes.get(joined, [])
        if len(offered) != 1 or name.startswith(offered[0]):
            return name
        return offered[0] + name.removeprefix(joined)


class ServerNames(ClientNames):
    """The names of the tools of one server as it wrote them, for clients at the address of that server."""

    def __init__(self, tools: Sequence[OfferedTool]) -> None:
        super().__init__((), (), AS_OFFERED)
        self._shown = {offered.name: offered.tool.name for offered in tools}
        self._meant = {offered.tool.name: [offered.name] for offered in tools}


def _apart(changed: Mapping[str, str], own: frozenset[str], rules: NameRules) -> Mapping[str, str]:
    """The names that clients get, by the offered ones."""
    counts = Counter(changed.values())
    client_names = {}
    for name, spelling in changed.items():
        is_taken = counts[spelling] > 1 or (spelling != name and naming.is_reserved(spelling))
        client_names[name] = _hashed(name, spelling, rules) if is_taken and name not in own else spelling
    return client_names


def _changed(name: str, rules: NameRules) -> str:
    joined = _joined(name, rules)
    return joined if len(joined) <= rules.longest else _hashed(name, joined, rules)


def _joined(name: str, rules: NameRules) -> str:
    return name if rules.separator == SEPARATOR else _UNDERSCORES.sub(rules.separator, name)


def _hashed(name: str, spelling: str, rules: NameRules) -> str:
    """The beginning of the spelling, `_`, and hex digits of the SHA-256 of the offered name."""
    beginning = spelling[: rules.longest - _DIGITS - 1].rstrip("_")
    return f"{beginning}_{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def _issue(spelling: str, names: Sequence[str], client_names: Mapping[str, str]) -> Issue:
    message = f'For this client "{spelling}" could be {len(names)} tools; a call by this name is refused'
    details = "; ".join(f"{name} is {client_names[name]}" for name in names)
    return Issue("warning", "names", "TOOL_NAME_CLASH", message, spelling, details)
