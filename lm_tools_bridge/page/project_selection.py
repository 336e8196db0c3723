"""Asks a project's server for its own page, and selects what that shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.protocol.errors import Refusal
from manager.admin.control.project_command import ServerCommand
from manager.admin.control.services import Services
from manager.routing.client_profiles import OTHER, PROFILES, profile_of
from manager.routing.remote_address import may_be_remote
from manager.status_reading import (
    TRUST_PENDING,
    context_cost,
    first_request_cost,
    json_object,
    listed_to,
    merged_workspaces,
    names_of_projects,
    objects,
)

MOST_TOOLS: Final = 500
"""Most tools on the page; `lmtb tools --all` shows all."""
MOST_ROWS: Final = 200
"""Most sources and issues on the page."""
MOST_LINES: Final = 50
"""Most last lines of a source."""
MAX_TEXT: Final = 2000
"""Longest sentence, in characters."""
MAX_NAME: Final = 200
"""Longest name or line, in characters."""
_LONG: Final = frozenset({"description", "details", "error", "message", "reason"})
_TOLD_BY_SOURCES: Final = frozenset({"SOURCE_UNAVAILABLE", "SOURCE_STARTING", TRUST_PENDING})
"""Codes of issues that the tables of sources and of trust show already."""


@dataclass(frozen=True, slots=True)
class Project:
    """A known project: its workspace's id, root and state, and whether a server runs for it."""

    workspace: str
    root: str
    state: str
    is_running: bool
    sources: Sequence[Mapping[str, Any]] = ()
    """As its server last reported them."""
    is_elsewhere: bool = False
    """Whether it is on another host: the manager there knows whether a server runs."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for trust: the differences as `lmtb trust --diff --json` prints them, and the command.

    `problem` says why the differences are not known.
    """

    changes: Sequence[Mapping[str, Any]]
    command: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AgentCost:
    """The tokens of ours in the first request of an agent, about.

    Attributes:
        how: what of tools is in it: `all`, or what of those that the agent defers.
        is_here: whether the agent is connected in this project.
    """

    agent: str
    tokens: int
    how: str
    is_here: bool


@dataclass(frozen=True, slots=True)
class ProjectView:
    """All that a project's page shows.

    Attributes:
        problem: why the server was not asked or did not answer; None if it answered.
        listed, tokens: number of the tools that clients get listed, and what they cost together, with the
            meta-tools.
        left_out: tools that are not in `tools`.
        tools: those that cost most first.
        name: of the project.
        costs: what the tools cost the agents that were seen here, then all others that are known.
    """

    project: Project
    problem: str | None
    tools: Sequence[Mapping[str, Any]]
    left_out: int
    listed: int
    tokens: int
    sources: Sequence[Mapping[str, Any]]
    issues: Sequence[Mapping[str, Any]]
    waiting: Waiting | None
    name: str
    costs: Sequence[AgentCost] = ()


def find_project(rows: Sequence[Mapping[str, Any]], workspace: str) -> Project | None:
    """The project of a workspace's id.

    Args:
        rows: the workspaces of a status, merged with their servers.
    """
    row = next(
        (
            candidate
            for candidate in rows
            if candidate.get("workspace") == workspace and candidate.get("root")
        ),
        None,
    )
    if row is None:
        return None
    running = row.get("pid") is not None or row.get("owner") == "remote"
    root, state = str(row["root"]), str(row.get("state"))
    return Project(workspace, root, state, running, objects(row, "sources"), may_be_remote(root))


def needs_trust(answer: Mapping[str, Any]) -> bool:
    """Whether something waits for trust, as the server says."""
    return any(issue.get("code") == TRUST_PENDING for issue in objects(answer, "issues"))


def waiting_for_trust(root: str, answer: Mapping[str, Any] | str) -> Waiting | None:
    """What waits for trust; None if nothing does.

    Args:
        answer: of `trust --diff --json`, or why there is none.
    """
    command = f"lmtb trust {shlex.quote(root)}"
    if isinstance(answer, str):
        return Waiting((), command, answer)
    problem = answer.get("problem")
    problem_text = None if problem is None else str(problem)
    changes = objects(answer, "changes")
    return Waiting(changes, command, problem_text) if changes or problem_text else None


def project_view(
    project: Project,
    answer: Mapping[str, Any] | str,
    waiting: Waiting | None,
    *,
    name: str | None = None,
    agents: Collection[str] = (),
) -> ProjectView:
    """Make the view.

    Args:
        answer: what the project's server said about itself, or why it said nothing.
        name: of the project; that of its workspace if not given.
        agents: titles of the agents that are connected in it.
    """
    problem = answer if isinstance(answer, str) else None
    members = {} if isinstance(answer, str) else answer
    tools = sorted(_cut(objects(members, "tools")), key=_rank)
    listed_tools = [row for row in tools if row.get("listed")]
    return ProjectView(
        project,
        problem,
        tools[:MOST_TOOLS],
        max(0, len(tools) - MOST_TOOLS),
        len(listed_tools),
        context_cost((*listed_tools, *objects(members, "metaTools"))),
        project.sources if problem else _cut(objects(members, "sources")[:MOST_ROWS]),
        _cut(
            [row for row in objects(members, "issues") if row.get("code") not in _TOLD_BY_SOURCES][:MOST_ROWS]
        ),
        waiting,
        name or project.workspace,
        list(_costs(members, listed_tools, agents)),
    )


def _rank(row: Mapping[str, Any]) -> tuple[bool, int, str]:
    """Tools in the lists of agents first, of those the ones that cost most."""
    tokens = row.get("tokens")
    return not row.get("listed"), -tokens if isinstance(tokens, int) else 0, str(row.get("name"))


def _costs(
    members: Mapping[str, Any], listed_tools: Sequence[Mapping[str, Any]], agents: Collection[str]
) -> Iterator[AgentCost]:
    if not listed_tools:
        return
    value = members.get("instructions")
    instructions = value if isinstance(value, Mapping) else {}
    rows = [*listed_tools, *objects(members, "metaTools")]
    for profile in sorted((*PROFILES, OTHER), key=lambda profile: profile.title not in agents):
        if profile.defers_tools:
            cost, how = first_request_cost(profile, rows, instructions), str(profile.deferred_as)
        else:
            cost, how = context_cost((*listed_to(profile, rows), instructions)), "all"
        is_here = profile.title in agents
        if is_here or profile is not OTHER:
            yield AgentCost(profile.title, cost, how, is_here)


def _cut(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows with their texts cut: a manager on another host may send any."""
    return [{key: _shortened(key, value) for key, value in row.items()} for row in rows]


def _shortened(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_shortened("", item) for item in value[-MOST_LINES:]]
    return value[: MAX_TEXT if key in _LONG else MAX_NAME] if isinstance(value, str) else value


_SHOWN_THERE: Final = "It is on another host, and the command shows it from there."
_NOT_RUNNING: Final = "Its server does not run. It starts with the next request from the folder."


def _agents(status: Mapping[str, Any], workspace: str) -> set[str]:
    """The titles of the agents that are connected in a project."""
    here = (row for row in objects(status, "clientDetails") if row.get("workspace") == workspace)
    names = (row["name"] for row in here if row.get("state") == "connected" and row.get("name"))
    return {profile_of(str(name)).title for name in names}


class Projects:
    """Makes the views of projects.

    Args:
        status: the status as `/mcp/status` shows it.
        command: tells what waits for trust.
    """

    def __init__(
        self, services: Services, status: Callable[[], dict[str, Any]], command: ServerCommand
    ) -> None:
        self._services = services
        self._status = status
        self._command = command

    async def view(self, workspace: str) -> ProjectView | None:
        """The project of a workspace's id, None if there is none. Starts no server: it is read by GET."""
        status = self._status()
        project = find_project(merged_workspaces(status), workspace)
        if project is None:
            return None
        answer = await self._ask(project)
        return project_view(
            project,
            answer,
            await self._waiting(project, answer),
            name=names_of_projects(status).get(workspace),
            agents=_agents(status, workspace),
        )

    async def _ask(self, project: Project) -> Mapping[str, Any] | str:
        if not project.is_running:
            return _NOT_RUNNING
        # on another host, only the manager there knows whether a server runs
        starts = not project.is_elsewhere
        answer = await self._services.ask_server(project.root, "inspect", None, starts=starts)
        if isinstance(answer, Refusal):
            return answer.message
        members = json_object(answer)
        return "Its server gave no answer that can be read." if members is None else members

    async def _waiting(self, project: Project, answer: Mapping[str, Any] | str) -> Waiting | None:
        if not isinstance(answer, str) and not needs_trust(answer):
            return None  # the command takes a while
        if project.is_elsewhere:
            return None if isinstance(answer, str) else waiting_for_trust(project.root, _SHOWN_THERE)
        return waiting_for_trust(project.root, await self._command.differences(project.root))
