"""Finds the source of a tool by its name: the names of a server's tools begin with its namespace. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

SourcesOf = Callable[[str], Iterable[str]]
"""Id of a workspace -> ids of its sources as its server reported them last, such as `stdio:git`."""
_SERVERS: Final = ("stdio", "remote")


def source_of(tool: str, sources: Iterable[str]) -> str:
    """The id of the source whose tool this is; empty if the name does not tell.

    Tools of this program, of scripts and of servers without a namespace have no beginning that tells.
    """
    found = [one for one in sources if _begins(tool, *one.partition(":")[::2])]
    return max(found, key=len, default="")


def _begins(tool: str, kind: str, namespace: str) -> bool:
    return kind in _SERVERS and bool(namespace) and tool.startswith(f"{namespace}__")
