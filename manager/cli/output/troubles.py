"""What is wrong with the sources of running workspaces, as their servers told the manager last.

For status and doctor, which ask the manager only; `lmtb servers` asks the server itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from manager.cli.output.responses import TRUST_PENDING, objects, pending, worded

DOWN: Final = frozenset({"failed", "backoff", "crash_looping", "auth_required"})
"""States of a source whose tools do not work now."""
_BROKEN: Final = frozenset({"failed", "crash_looping"})
"""Those that do not end by themselves soon."""
_TOLD: Final = frozenset({"SOURCE_UNAVAILABLE", "SOURCE_STARTING", TRUST_PENDING})
"""Codes of issues about what the states of the sources say already."""


class Trouble(NamedTuple):
    """One thing that is wrong. `is_fault`: it does not pass, and nobody waits for the user's decision."""

    is_fault: bool
    text: str
    next_step: str


def troubles(server: Mapping[str, Any]) -> Iterator[Trouble]:
    """What is wrong with one server's sources, worst first.

    Args:
        server: its object in `instanceDetails`; without sources where it reports none.
    """
    sources = [one for one in objects(server, "sources") if one.get("state") in DOWN]
    sources.sort(key=lambda source: source.get("state") not in _BROKEN)
    here = f"--cwd {shlex.quote(str(server.get('root')))}"
    for source in sources:
        text = f"{source.get('id')} is {source['state']}: {source.get('error') or 'no reason known'}"
        yield Trouble(source["state"] in _BROKEN, text, _step(source, here))
    for issue in objects(server, "issues"):
        if issue.get("level") == "error" and issue.get("code") not in _TOLD:
            yield Trouble(True, worded(issue), f"look closer with: lmtb tools {here}")
    for command, messages in pending(server).items():
        things = "1 thing waits" if len(messages) == 1 else f"{len(messages)} things wait"
        yield Trouble(False, f"{things} for your trust", f"look at it with: {command}")


def _step(source: Mapping[str, Any], here: str) -> str:
    name = shlex.quote(str(source.get("id")))
    if source.get("state") == "auth_required":
        entry = shlex.quote(str(source.get("id")).partition(":")[2])
        return f"sign in with: lmtb servers login {entry} {here}; or give its entry a valid token"
    step = f"try at once with: lmtb servers restart {name} {here}"
    return f"look with: lmtb servers {here}; {step}"
