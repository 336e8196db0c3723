"""Makes `lmtb status`: the manager as facts, its workspaces as a table.

Without options it needs no click; failures and help are left to the verb itself (`cli/status.py`). What of
the current folder's project waits for trust is read from its files, without a server. A member that an
older or newer manager does not send is shown as a dash.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View, tone_of
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.quantities import duration, latency
from manager import __version__
from manager.attention import approval_text
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.savings import Savings, count_savings, savings_text
from manager.status_reading import (
    TRUST_PENDING,
    group_worktrees,
    is_gone,
    is_main_tree,
    merged_workspaces,
    names_of_projects,
    objects,
    problems_by_repository,
    project_names,
    running_twice,
)

LIMIT_S: Final = 5.0
"""Longest time to look."""
_FILES: Final = (
    ".lm-tools-bridge", ".vscode/settings.json", *(file.path for file in client_files.PROJECT_FILES),
)  # fmt: skip
_SHOWN: Final = 5


class ProjectTrust(NamedTuple):
    """The project's root, the names of what waits for trust, and the command to review it."""

    root: str
    names: tuple[str, ...]
    command: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        names = ", ".join(self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        summary = f"{names} and {more} more" if more > 0 else names
        return f"{self.root}: waiting for your trust: {summary}; review with: {self.command}"


def may_wait() -> bool:
    """Whether the current folder, or one above it within the home folder, has files that may need trust."""
    return any(os.path.lexists(f"{folder}/{name}") for folder in _folders() for name in _FILES)


def project_trust() -> ProjectTrust | None:
    """What waits for trust in the project of the current folder; None if unknown. Starts nothing of it."""
    if not may_wait():
        return None
    # slow to load, and rarely needed
    from lm_tools_bridge.terminal.command_line import Failure
    from manager.cli.workspace_command import answer_of, root_of

    try:
        root = root_of(None)
    except Failure:
        return None
    answer = answer_of("pending", root, limit_s=LIMIT_S)
    names, command = (answer or {}).get("pending"), (answer or {}).get("command")
    if not isinstance(names, list) or not isinstance(command, str):
        return None
    return ProjectTrust(root, tuple(map(str, names)), command)


def _folders() -> Iterator[str]:
    try:
        folder = os.getcwd()  # noqa: PTH109  this module is loaded by the fast path
    except OSError:
        return
    home = os.path.expanduser("~")  # noqa: PTH111  the same
    # the folder above the root is the root itself, also that of a drive
    while folder != home and (above := os.path.dirname(folder)) != folder:  # noqa: PTH120  the same
        yield folder
        folder = above


_ALARMING: Final = frozenset({"unhealthy", "crash_looping"})
_COLUMNS: Final = (
    Column("PROJECT", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("PID", Kind.NUMBER, rank=5),
    Column("PORT", Kind.NUMBER, rank=6),
    Column("CALLS", Kind.NUMBER, rank=1),
    Column("ERRORS", Kind.NUMBER, rank=2),
    Column("P50", Kind.LATENCY, rank=4),
    Column("P99", Kind.LATENCY, rank=4),
    Column("RESTARTS", Kind.NUMBER, rank=6),
    Column("MEMORY", Kind.SIZE, rank=3),
    Column("CPU", Kind.SECONDS, rank=5),
    Column("FOLDER", Kind.FOLDER),
)


def overview(
    answer: Mapping[str, Any],
    ask: Callable[[str], Mapping[str, Any]],
    project: ProjectTrust | None = None,
    *,
    savings: Savings | None = None,
) -> list[View]:
    """The complete text.

    Args:
        answer: the status.
        ask: gets the JSON object at a path of the control socket.
        project: what waits for trust in the project of the current folder.
        savings: what sharing servers saves now.
    """
    address = answer.get("address") or ask("/status").get("address")
    every = merged_workspaces(answer)
    rows = [row for row in every if not is_gone(row)]
    running = sum(1 for row in rows if row.get("pid"))
    gone = f", {len(every) - len(rows)} more whose folder is gone" if len(every) > len(rows) else ""
    facts = [
        Fact("address", str(address or "unknown")),
        Fact("clients", _connected(answer)),
        Fact("projects", f"{len(rows)} known, {running} running{gone}"),
    ]
    facts.append(Fact("saves now", savings_text(savings)))
    own = [value for value in _percentiles(answer.get("figures"), "managerMs") if value is not None]
    if own:
        times = " and ".join(latency(value) or "-" for value in own)
        facts.append(Fact("own time", f"{times} a call (p50 and p99 of the last 5 min)"))
    if change := _version_change(answer):
        facts.append(Fact("version", change, Tone.WARN))
    all_problems = problems(answer, project)
    facts += [Fact("problem", problem, Tone.WARN) for problem in all_problems]
    if all_problems:
        is_only_trust = project is not None and all_problems == [project.text]
        step = "lmtb approvals" if objects(answer, "approvals") else "lmtb doctor"
        facts.append(Fact("next step", project.command if project and is_only_trust else step))
    views: list[View] = [_headline(answer), FactList(facts)]
    return [*views, "", workspace_table(rows)] if rows else views


def workspace_table(rows: list[dict[str, Any]], *, indent: int = 0) -> Table:
    """Workspaces as a table for people; the worktrees of a repository stand below its main working tree."""
    names = project_names(row.get("workspace") for row in rows)
    for group in group_worktrees(rows):
        for row in group[1:] if is_main_tree(group[0]) else ():
            identity = str(row.get("workspace"))
            names[identity] = f"└ {names[identity]}"
    ordered = [row for group in group_worktrees(rows) for row in group]
    return Table(_COLUMNS, [_workspace_row(row, names) for row in ordered], indent=indent)


def _without_trust(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        **row,
        "issues": [issue for issue in objects(row, "issues") if issue.get("code") != TRUST_PENDING],
    }


def problems(status: Mapping[str, Any], project: ProjectTrust | None = None) -> list[str]:
    """The problems, one text each; of `project` what its files say now, not what its server reported."""
    degraded = status.get("degraded")
    names = names_of_projects(status)
    texts = [approval_text(entry, names) for entry in objects(status, "approvals")]
    texts += [_reason(entry) for entry in degraded] if isinstance(degraded, list) else []
    for row in merged_workspaces(status):
        if row.get("state") in _ALARMING:
            why = row.get("lastError") or "see: lmtb doctor"
            texts.append(f"{names.get(str(row.get('workspace')))} is {row['state']}: {why}")
    is_read_anew = {project.root} if project is not None else set()
    rows = [
        _without_trust(row) if row.get("root") in is_read_anew else row for row in merged_workspaces(status)
    ]
    texts += [f"{who}: {problem.text}" for who, problem in problems_by_repository(rows, names)]
    texts += [project.text] if project is not None and project.names else []
    return [*texts, *(f"{text}; run each once: {command}" for text, command in running_twice(status))]


def _headline(status: Mapping[str, Any]) -> Note:
    about = [f"pid {status.get('pid', 'unknown')}"]
    if up := duration(status.get("uptimeSec")):
        about.append(f"up {up}")
    version, state = status.get("version", "?"), str(status.get("state", "running"))
    return Note(f"LM Tools Bridge {version} is {state} ({', '.join(about)})", tone_of(state))


def _version_change(status: Mapping[str, Any]) -> str | None:
    """What to do where the manager does not run what is installed."""
    running, installed = status.get("version"), status.get("installation")
    if running not in {None, __version__}:
        return f"the manager runs {running}, this program is {__version__}; to change over: lmtb restart"
    if isinstance(installed, dict) and installed.get("state") in {"changed", "other_version"}:
        return "the installed files have changed since the manager started; to change over: lmtb restart"
    return None


def _connected(status: Mapping[str, Any]) -> str:
    count = status.get("connectedClients")
    return f"{count} connected" if isinstance(count, int) else "-"


def _reason(reason: object) -> str:
    if isinstance(reason, dict):
        reason = reason.get("message") or reason.get("reason") or reason
    return str(reason)


def _workspace_row(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[object, ...]:
    return (
        names.get(str(row.get("workspace"))),
        "gone" if is_gone(row) else row.get("state"),
        *(row.get(name) for name in ("pid", "port", "calls", "errors")),
        *_percentiles(row, "serverMs"),
        *(row.get(name) for name in ("restarts", "rssBytes", "cpuSec", "root")),
    )


def _percentiles(figures: object, member: str) -> tuple[object, object]:
    percentiles = figures.get(member) if isinstance(figures, Mapping) else None
    values = percentiles if isinstance(percentiles, Mapping) else {}
    return values.get("p50"), values.get("p99")


def status() -> bool:
    """Print the status; False if the verb itself has to run, as for a project that may wait for trust."""
    if may_wait():
        return False
    try:
        control = Control(Paths.of_user().control_socket)
        with waiting("asking the manager"):
            answer = control.get("/mcp/status")
            views = overview(answer, control.get, savings=count_savings(answer))
        show(*views)
    except (NoManager, ManagerFault, ControlRefusal, UnsafePathError, OSError):
        return False
    except KeyboardInterrupt:  # in the words of the other verbs
        show("", Note("interrupted", Tone.BAD), "Next step: run it again", err=True)
        sys.exit(1)
    return True
