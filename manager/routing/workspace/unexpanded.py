"""Says which variables a client sent as its configuration spells them, not as their values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lm_tools_bridge.protocol.issues import Issue
from manager.routing.workspace.cwd import placeholder_in
from manager.routing.workspace.resolution import Claims

CODE: Final = "VARIABLE_NOT_EXPANDED"
_PLACES: Final[Mapping[str, str]] = {
    "?cwd": "?cwd= of its address",
    "X-Workspace-Cwd": "its header X-Workspace-Cwd",
    "sandboxCwd": "the folder that it works in",
    "roots": "its roots",
}
"""By the names of `Claims.shown_texts`."""


def unexpanded(sent: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each text with a variable among those that a client sent (`Claims.shown_texts`)."""
    for name, text in sent.items():
        placeholder = placeholder_in(text)
        if placeholder is not None and name in _PLACES:
            yield f"the client did not expand {placeholder} in {_PLACES[name]}"


def issues_of(claims: Claims) -> list[Issue]:
    """The issues of a request's claims, which count as not made."""
    if claims.query is None and claims.header is None and claims.codex is None and not claims.roots:
        return []
    return [Issue("warning", "workspace", CODE, text) for text in unexpanded(claims.shown_texts())]
