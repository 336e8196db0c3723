"""Does what verbs do about a project on another host: its host has its settings, its trust and its logins.

Tools are changed through this manager, which asks the one there. The feature that reaches hosts runs verbs.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from lm_tools_bridge.terminal.command_line import Failure, is_json, print_json, say
from lm_tools_bridge.text.printable import printable
from manager.cli.output.manager_access import ask_about
from manager.features import FEATURES, ReachedHost
from manager.routing.workspace.remote_address import may_be_remote
from manager.status_reading.tool_rows import EFFECTS, LISTED

TARGET = "/tools/change"
_OWN = frozenset({"ok", "reason"})
_BECAME = {"not_changed": "was not changed", "change_unknown": "may have been changed"}
"""Reason of the manager -> what became of the tool or source."""


def is_remote(place: Path | str | None) -> bool:
    """Whether a folder at the command line is on another host."""
    return place is not None and may_be_remote(str(place))


def run_there(place: Path | str, words: Sequence[str], operands: Sequence[str] = ()) -> NoReturn:
    """Let the program on the host of a project run a verb at this terminal, and exit as it does.

    Args:
        words: the verb and its options; the project's folder there follows them.
        operands: what follows the folder.
    """
    host, folder = find_host(place)
    sys.exit(host.run([*words, "--", folder, *operands]))


def find_host(place: Path | str) -> tuple[ReachedHost, str]:
    """The host of a project, and the project's folder there.

    Raises:
        Failure: the user has not added that host, or this installation reaches none.
    """
    feature = next((feature for feature in FEATURES if feature.reaches_hosts), None)
    if feature is None:
        raise Failure(f"{place} is on another host, and this installation reaches none", "use a folder here")
    reached: tuple[ReachedHost, str] = feature.load().find_host(str(place))
    return reached


def change_tool(place: Path | str, tool: str, change: str) -> dict[str, Any]:
    """Enable, disable, allow, ask or deny a tool of a project on another host; what was changed.

    Raises:
        Failure: nothing was changed, or it is unknown.
    """
    return _changed(place, tool, tool=tool, change=change)


def change_visibility(place: Path, name: str, visibility: str, *, of_source: bool) -> dict[str, Any]:
    """Choose in which lists a tool, or a source's tools, of a project on another host appear.

    Raises:
        Failure: nothing was changed, or it is unknown.
    """
    return _changed(place, name, name=name, visibility=visibility, ofSource=of_source)


def _changed(place: Path | str, what: str, **members: str | bool) -> dict[str, Any]:
    try:
        return ask_about(TARGET, place, **members)
    except Failure as failure:
        became = _BECAME.get(failure.reason or "")
        if became is None:
            raise
        step = f"see what holds now with: lmtb tools --cwd {shlex.quote(str(place))}"
        raise Failure(f"{printable(what)} {became}: {failure}", step, reason=failure.reason) from failure


def print_change(name: str, change: str, done: Mapping[str, Any]) -> None:
    """Say what was changed.

    Args:
        change: one of `EFFECTS` or `LISTED`.
    """
    if is_json():
        print_json({key: value for key, value in done.items() if key not in _OWN})
        return
    host, file = printable(done.get("host")), printable(done.get("file"))
    who = f"What {printable(name)} offers" if "source" in done else printable(name)
    say(f"{who} {EFFECTS.get(change) or LISTED[change]}. Written to {file} on {host}.")
    if done.get("waitsFor"):
        say(f"That file comes with the project, so it waits for: {printable(done['waitsFor'])}")
