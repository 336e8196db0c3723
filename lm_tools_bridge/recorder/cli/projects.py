"""Finds the project that a name stands for: its id, or the part of it before the hash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lm_tools_bridge.terminal.command_line import Failure

_ID: Final = re.compile(r".*-[0-9a-f]{12}")


def project_named(name: str, known: Iterable[str]) -> str:
    """The id of a project.

    Args:
        name: an id, which need not be known yet, or the beginning of a known one, without the hash.
        known: ids.

    Raises:
        Failure: no known project has this name, or several have.
    """
    ids = set(known)
    if name in ids:
        return name
    found = sorted(one for one in ids if one.rpartition("-")[0] == name)
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(
            f"{len(found)} projects are named {name}",
            f"name one: {', '.join(found)}",
            reason="ambiguous_project",
        )
    if _ID.fullmatch(name):
        return name
    raise Failure(f"no project {name} is known", "list them with: lmtb workspaces", reason="unknown_project")
