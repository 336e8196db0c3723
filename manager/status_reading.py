"""Reads a status as people do: answers, problems with their next steps, how tools are listed.

States are those that servers last reported to the manager. A server runs twice when a client that was seen in
a project also starts it itself. `status` and `doctor` ask only the manager; `lmtb servers` asks the server
itself. What waits for a person is in `attention.py`.
"""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from lm_tools_bridge.protocol.internal.client_files import CLAUDE_CODE
from lm_tools_bridge.protocol.internal.client_traits import OwnServers
from lm_tools_bridge.protocol.internal.source_states import BROKEN, DOWN, STATES
from lm_tools_bridge.text.placeholders import passing_on
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.text_tokens import text_tokens
from manager.routing.client_profiles import ENTRY_NAME, OTHER, ClientProfile, profile_of

_SHOWN_FIRST: Final = ("timestamp", "level", "event")


def parse_log_line(line: str) -> dict[str, Any]:
    """The fields of a line; none if it is no entry, such as a line of a traceback."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def format_log_line(line: str) -> str:
    """A line as people read it: time, level, event, fields."""
    fields = parse_log_line(line)
    if not fields:
        return line
    head = " ".join(str(fields.pop(name, "-")) for name in _SHOWN_FIRST)
    return " ".join([head, *(f"{name}={value}" for name, value in fields.items())])


TRUST_PENDING: Final = "TRUST_PENDING"
"""The code of issues that wait for the user's trust; their details are the command that gives it."""


def json_object(answer: bytes) -> dict[str, Any] | None:
    """The object that a server answered; None if it is none: a registered server may answer anything."""
    import msgspec  # noqa: PLC0415  most verbs do not need it

    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def objects(status: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """The objects in a list of the status; [] if the manager (of another version) sends none."""
    value = status.get(member)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def pending(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """Items that wait for trust: the command that trusts them -> their messages, without duplicates."""
    names: dict[str, dict[str, None]] = {}
    for issue in objects(answer, "issues"):
        if issue.get("code") == TRUST_PENDING:
            names.setdefault(str(issue.get("details") or "lmtb trust"), {})[str(issue.get("message"))] = None
    return {command: list(messages) for command, messages in names.items()}


def issue_text(issue: Mapping[str, Any]) -> str:
    """An issue as a sentence."""
    message, details = str(issue.get("message")), issue.get("details")
    return f"{message} ({details})" if details and str(details) not in message else message


def first_sentence(description: object) -> str:
    """The beginning of a description, on one line."""
    text = " ".join(description.split()) if isinstance(description, str) else ""
    return text.split(". ", 1)[0].removesuffix(".")


def merged_workspaces(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each known workspace merged with its server; servers without a known workspace last."""
    servers: dict[object, list[dict[str, Any]]] = {}
    for one in objects(status, "instanceDetails"):
        servers.setdefault(one.get("workspace"), []).append(one)
    rows = [
        {**workspace, **server, "workspace": workspace.get("id")}
        for workspace in objects(status, "workspaceDetails")
        for server in servers.pop(workspace.get("id"), [{}])
    ]
    return rows + [one for rest in servers.values() for one in rest]


Row = TypeVar("Row", bound=Mapping[str, Any])


def group_worktrees(rows: Iterable[Row]) -> list[list[Row]]:
    """Workspaces by their repository, in the order of their first ones; the main working tree comes first.

    One that is not known to be a working tree is a group of its own.
    """
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(
            row.get("repository") or ("alone", row.get("workspace"), row.get("pid")), []
        ).append(row)
    return [sorted(group, key=lambda row: not is_main_tree(row)) for group in groups.values()]


def is_main_tree(row: Mapping[str, Any]) -> bool:
    """Whether the repository of a workspace lies in its folder."""
    return row.get("repository") == f"{row.get('root')}/.git"


_HASH_DIGITS: Final = 12
"""Digits of the hash at the end of a workspace's id (`manager.routing.matching.workspace_id`)."""


def project_names(workspaces: Iterable[object]) -> dict[str, str]:
    """The names of projects for people, by the ids of their workspaces.

    A name is the id without its hash, `shop` for `shop-5b0a4815548c`, unless two are called so.
    """
    identities = {str(workspace) for workspace in workspaces}
    short = {identity: _without_hash(identity) for identity in identities}
    counts: dict[str, int] = {}
    for name in (*short.values(), *(identity for identity in identities if short[identity] != identity)):
        counts[name] = counts.get(name, 0) + 1
    return {identity: name if counts[name] == 1 else identity for identity, name in short.items()}


def names_of_projects(status: Mapping[str, Any]) -> dict[str, str]:
    """The names of all projects of a status, by the ids of their workspaces."""
    rows, calls = merged_workspaces(status), objects(status, "approvals")
    return project_names(row.get("workspace") for row in (*rows, *calls))


def _without_hash(identity: str) -> str:
    name, _, digits = identity.rpartition("-")
    is_hash = len(digits) == _HASH_DIGITS and not digits.strip("0123456789abcdef")
    return name if name and is_hash else identity


def is_gone(row: Mapping[str, Any]) -> bool:
    """Whether this workspace has no server, and its folder does not exist: it was deleted or moved."""
    root = row.get("root")
    if row.get("state") != "stopped" or not isinstance(root, str):
        return False
    try:
        return not stat.S_ISDIR(Path(root).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # nobody knows
        return False


_BEGINNING: Final = 160
"""Characters of a description in Qwen Code's first request."""
_SERVER_LINE: Final = 65
"""Tokens of the 250 characters in which Codex describes a server."""
VISIBILITIES: Final = ("native", "ondemand", "always", "default")
"""What can be chosen for a tool or a source; `default` takes the choice back."""
EFFECTS: Final[Mapping[str, str]] = {
    "enable": "is enabled",
    "disable": "is disabled: clients can no longer see, find or call it",
    "expose": "is exposed: it can be enabled",
    "unexpose": "is no longer exposed: clients cannot see, find or call it, and nobody can enable it",
    "allow": "runs without asking",
    "ask": "asks a person before every call",
    "deny": "never runs",
}
"""What a change of a tool does, as the end of a sentence."""
LISTED: Final[Mapping[str, str]] = {
    "native": "is listed as usual",
    "ondemand": "is not listed, but found with tool_search",
    "always": "is always listed, also in discovery mode",
    "default": "is listed as its source says",
}
"""What the choice of a visibility does, likewise."""
_YOURS: Final = {"yours": "yours", "yours_for_source": "yours, for its source"}


def listing_of_tool(row: Mapping[str, Any]) -> str:
    """How clients get a tool that can be called, such as `listed`, `unlisted` or `on demand (yours)`.

    Args:
        row: the tool, as its server describes it.
    """
    words = "unlisted" if row.get("unlisted") else "on demand"
    if row.get("listed"):
        words = "always listed" if row.get("visibility") == "always" else "listed"
    origin = _YOURS.get(str(row.get("visibilityOrigin")))
    return words if origin is None else f"{words} ({origin})"


def origin_of_listing(row: Mapping[str, Any]) -> str:
    """Who says which visibility a tool has, as the end of a sentence."""
    source, visibility = row.get("source"), row.get("visibility")
    match row.get("visibilityOrigin"):
        case "yours":
            return f"you chose {visibility} for it"
        case "yours_for_source":
            return f"you chose {visibility} for all tools of {source}"
        case _:
            return f"{source} says {visibility}"


def context_cost(rows: Iterable[Mapping[str, Any]]) -> int:
    """The tokens that listed tools, meta-tools and instructions take in a model's context, about."""
    counts = (row.get("tokens") for row in rows)
    return sum(count for count in counts if isinstance(count, int))


def listed_to(profile: ClientProfile, tools: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What of listed tools a client gets listed: not those that repeat its own."""
    return [row for row in tools if not (profile.has_file_tools and row.get("repeatsClients"))]


def first_request_cost(
    profile: ClientProfile, tools: Iterable[Mapping[str, Any]], instructions: Mapping[str, Any]
) -> int:
    """The tokens of ours in the first request of a client that defers tools, about.

    Args:
        profile: the client.
        tools: the listed tools and meta-tools.
        instructions: what their server says of them, with their `tokens`.
    """
    tools = listed_to(profile, tools)
    if profile.deferred_as == "nothing":
        return min(context_cost([instructions]), _SERVER_LINE)
    prefix = profile.name_prefix.format(ENTRY_NAME)
    cut = _BEGINNING if profile.deferred_as == "beginnings" else 0
    lines = (f"{prefix}{row.get('name')}\n{str(row.get('description') or '')[:cut]}" for row in tools)
    return round(context_cost([instructions]) + sum(map(text_tokens, lines)))


def running_twice(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """One sentence for each project, client and file, and the command by which each server runs once."""
    projects = names_of_projects(status)
    for server in objects(status, "instanceDetails"):
        workspace = str(server.get("workspace"))
        for title, own in sorted(_started_by_clients(status, workspace), key=str):
            names = [
                namespace
                for source in objects(server, "sources")
                if own.starts(source.get("file"), namespace := str(source.get("namespace")))
            ]
            if names:
                project = projects.get(workspace, workspace)
                run_twice = "it runs twice" if len(names) == 1 else "they run twice"
                is_told = own.file == CLAUDE_CODE.path and title == CLAUDE_CODE.client
                command = "lmtb adopt" if is_told else "lmtb adopt --move"
                yield (
                    f"{project}: {title} starts {quoted(names)} of {own.file} itself, so {run_twice}",
                    command,
                )


def quoted(names: Iterable[str]) -> str:
    """Names in a sentence: without quotes a server named `files` reads like a word of it."""
    return ", ".join(f'"{name}"' for name in names)


def state_words(state: object) -> str:
    """What the state of a source means, after its name; the state itself if another version sent it."""
    meaning = STATES.get(str(state))
    return f"is {state}" if meaning is None else meaning.words


def clients_starting(status: Mapping[str, Any], workspace: str, file: str, namespace: str) -> list[str]:
    """Titles of the clients that were seen in a workspace and start this server of a file themselves."""
    started = _started_by_clients(status, workspace)
    return sorted({title for title, own in started if own.starts(file, namespace)})


def _started_by_clients(status: Mapping[str, Any], workspace: str) -> set[tuple[str, OwnServers]]:
    """What each client that was seen in a workspace starts itself there, as far as the manager knows."""
    return {
        (client_title(row["name"]), OwnServers(str(own.get("file")), _names(own), own.get("allBut") is True))
        for row in objects(status, "clientDetails")
        if isinstance(row.get("name"), str) and row.get("workspace") == workspace
        for own in objects(row, "ownServers")
    }


def _names(own: Mapping[str, Any]) -> frozenset[str]:
    names = own.get("names")
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def client_title(name: str) -> str:
    """The name of a client program for people, by what it calls itself."""
    profile = profile_of(name)
    return printable(name) if profile is OTHER else profile.title


_SHOWN_BY_STATE: Final = frozenset({"SOURCE_UNAVAILABLE", "SOURCE_STARTING", TRUST_PENDING})
"""Codes of issues that the states of sources show already."""


class SourceProblem(NamedTuple):
    """A problem of a server's sources, or an issue of the server.

    Attributes:
        is_fault: it does not recover, and does not wait for the user's decision.
        source: id of the source, if it is the problem of one.
        is_trust: something waits for trust.
    """

    is_fault: bool
    text: str
    next_step: str
    source: str | None = None
    is_trust: bool = False


def source_problems(server: Mapping[str, Any]) -> Iterator[SourceProblem]:
    """The problems of one server's sources, worst first.

    Args:
        server: its object in `instanceDetails`.
    """
    sources = [one for one in objects(server, "sources") if one.get("state") in (*DOWN, "degraded")]
    sources.sort(key=lambda source: source.get("state") not in BROKEN)
    here = f"--cwd {shlex.quote(str(server.get('root')))}"
    for source in sources:
        text = (
            f'"{source.get("id")}" {state_words(source["state"])}: {source.get("error") or "unknown cause"}'
        )
        step = source_step(source, str(server.get("root")))
        yield SourceProblem(source["state"] in BROKEN, text, step, str(source.get("id")))
    for issue in objects(server, "issues"):
        if issue.get("level") == "error" and issue.get("code") not in _SHOWN_BY_STATE:
            yield SourceProblem(True, issue_text(issue), f"details with: lmtb tools {here}")
    for command, messages in pending(server).items():
        things = "1 item waits" if len(messages) == 1 else f"{len(messages)} items wait"
        text = f"{things} for your trust"
        yield SourceProblem(False, text, f"review with: {command}", is_trust=True)


def problems_by_repository(
    rows: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> Iterator[tuple[str, SourceProblem]]:
    """The problems of workspaces' sources, with who has them; what several worktrees have is told once.

    Args:
        rows: as `merged_workspaces`.
        names: those of projects, by the ids of their workspaces.
    """
    for group in group_worktrees(rows):
        owners: dict[tuple[bool, str], list[tuple[str, SourceProblem]]] = {}
        for row in group:
            for problem in source_problems(row):
                name = names.get(str(row.get("workspace")), str(row.get("workspace")))
                owners.setdefault((problem.is_fault, problem.text), []).append((name, problem))
        for shared in owners.values():
            name, problem = shared[0]
            yield with_others(name, len(shared) - 1), problem


def with_others(name: str, count: int) -> str:
    """The name of a worktree, and how many others it stands for."""
    """A project, and how many other worktrees of its repository are meant."""
    others = "1 other worktree" if count == 1 else f"{count} other worktrees"
    return f"{name} and {others}" if count else name


def shell_hint(source: Mapping[str, Any], shell: Mapping[str, str]) -> str | None:
    """What to do if a server ended for want of a variable that only the user's shell has.

    Args:
        source: the source as its workspace server describes it.
        shell: the environment of this command.
    """
    lacking = source.get("lacking")
    names = [name for name in lacking if name in shell] if isinstance(lacking, list) else []
    if not names or source.get("state") not in DOWN:
        return None
    return (
        f'"{source.get("id")}" asked for {", ".join(names)}, which this shell has and the manager has not:'
        f" export it where your login shell reads it, add to its entry {passing_on(names)},"
        " and run: lmtb restart --servers"
    )


_OAUTH: Final = '"oauth": {} (in a workspace.toml auth = "oauth")'


def source_step(source: Mapping[str, Any], root: str) -> str:
    """What helps with a source that is down, in the project at `root`."""
    here = f"--cwd {shlex.quote(root)}"
    name = shlex.quote(str(source.get("id")))
    if source.get("state") == "auth_required":
        login = _login_step(str(source.get("id")), root)
        if source.get("signsIn") is False:
            return f"give its entry a valid token; or set {_OAUTH} there and {login}"
        return f"{login}; or give its entry a valid token"
    step = f"retry now with: lmtb servers restart {name} {here}"
    return f"details with: lmtb servers {here}; {step}"


def is_login_here(root: str) -> bool:
    """Whether logins of a project at `root` are kept on this machine: they are on the project's own host."""
    from manager.routing.remote_address import split_root  # noqa: PLC0415  see below

    return split_root(root) is None


def _login_step(source: str, root: str) -> str:
    """How to sign in: on the project's own host, which keeps the login."""
    # loaded here: `lmtb status` is quick because it loads so little
    from manager.routing.remote_address import split_root  # noqa: PLC0415  see above

    place = split_root(root)
    entry = shlex.quote(source.partition(":")[2])
    if place is not None:
        there = f"lmtb servers login {entry} --cwd {shlex.quote(place.path)}"
        return f"sign in on its host, at a terminal there, with: {there}"
    return f"sign in with: lmtb servers login {entry} --cwd {shlex.quote(root)}"
