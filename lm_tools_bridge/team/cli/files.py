"""Changes `team.json`, tells a running manager, and turns errors into failures with a next step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import LockTimeout
from lm_tools_bridge.team import membership
from lm_tools_bridge.team.membership import Membership, UnreadableMembership
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.terminal.waiting import waiting
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control, NoManager

RELOAD_S = 60.0
"""Longest wait for a manager that leaves a team: calls of others may end first."""
SETTLE_S: Final = 8.0
"""Longest wait for the connection to a team that was just joined; it is tried on afterwards, too."""
_POLL_S: Final = 0.1


def config_dir() -> Path:
    """The user's configuration folder."""
    return user_paths().config_dir


@contextmanager
def explained_file() -> Iterator[None]:
    """Turns errors of `team.json` into failures."""
    try:
        yield
    except UnreadableMembership as error:
        raise Failure(str(error), "join one: lmtb team join URL", reason="not_joined") from error
    except LockTimeout as error:
        raise Failure(str(error), "try again", reason="locked") from error
    except OSError as error:
        raise Failure(worded(error), "check the folder and the disk", reason="unusable") from error


def edited(edit: Callable[[Membership], Membership]) -> dict[str, Any] | None:
    """Change what the user offers or uses; returns the state of a running manager."""
    with explained_file():
        membership.change(config_dir(), edit)
    return reloaded()


def joined() -> Membership:
    """The team that was joined."""
    with explained_file():
        held = membership.load(config_dir())
    if held is None:
        raise Failure("no team was joined", "join one: lmtb team join URL", reason="not_joined")
    return held


def reloaded() -> dict[str, Any] | None:
    """The state after a running manager follows the file; None if none runs."""
    try:
        with waiting("the manager follows"):
            return Control(user_paths().control_socket, RELOAD_S).post("/team/reload", {})
    except NoManager:
        return None


def settled(state: dict[str, Any] | None, within_s: float = SETTLE_S) -> dict[str, Any] | None:
    """The state once the team is reached, or it is known why not."""
    ends = time.monotonic() + within_s
    with waiting("connecting to the team"):
        while state is not None and not _is_settled(state) and time.monotonic() < ends:
            time.sleep(_POLL_S)
            try:
                state = Control(user_paths().control_socket, RELOAD_S).get("/team")
            except NoManager:
                return None
    return state


def _is_settled(state: dict[str, Any]) -> bool:
    return bool(not state.get("joined") or state.get("error") or (state.get("registry") or {}).get("listed"))


def posted(target: str, payload: dict[str, object]) -> dict[str, Any]:
    """The answer of the manager."""
    with explained(), waiting("asking the project's server, which starts if needed"):
        return Control(user_paths().control_socket, RELOAD_S).post(target, payload)
