"""Derives problems and next steps from the states of sources, and finds servers that run twice.

States are those that servers last reported to the manager. A server runs twice when a client that was seen
in a project also starts it itself. Used by `status` and `doctor`, which ask only the manager; `lmtb
servers` asks the server itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol.internal.client_traits import OwnServers
from lm_tools_bridge.protocol.internal.source_states import BROKEN, DOWN
from lm_tools_bridge.text.missing_variables import passing_on
from lm_tools_bridge.text.printable import printable
from manager.routing.client_profiles import OTHER, profile_of
from manager.status_reading.responses import TRUST_PENDING, issue_text, objects, pending


def running_twice(status: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each project, client and file."""
    for server in objects(status, "instanceDetails"):
        workspace = str(server.get("workspace"))
        for title, own in sorted(_started_by_clients(status, workspace), key=str):
            names = [
                namespace
                for source in objects(server, "sources")
                if own.starts(source.get("file"), namespace := str(source.get("namespace")))
            ]
            if names:
                yield (
                    f"{workspace}: {title} starts {', '.join(names)} of {own.file} itself, so they"
                    " run twice; move them with: lmtb adopt"
                )


def clients_starting(status: Mapping[str, Any], workspace: str, file: str, namespace: str) -> list[str]:
    """Titles of the clients that were seen in a workspace and start this server of a file themselves."""
    started = _started_by_clients(status, workspace)
    return sorted({title for title, own in started if own.starts(file, namespace)})


def _started_by_clients(status: Mapping[str, Any], workspace: str) -> set[tuple[str, OwnServers]]:
    """What each client that was seen in a workspace starts itself there, as far as the manager knows."""
    return {
        (_title(row["name"]), OwnServers(str(own.get("file")), _names(own), own.get("allBut") is True))
        for row in objects(status, "clientDetails")
        if isinstance(row.get("name"), str) and row.get("workspace") == workspace
        for own in objects(row, "ownServers")
    }


def _names(own: Mapping[str, Any]) -> frozenset[str]:
    names = own.get("names")
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def _title(name: str) -> str:
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
        text = f"{source.get('id')} is {source['state']}: {source.get('error') or 'unknown cause'}"
        step = source_step(source, str(server.get("root")))
        yield SourceProblem(source["state"] in BROKEN, text, step, str(source.get("id")))
    for issue in objects(server, "issues"):
        if issue.get("level") == "error" and issue.get("code") not in _SHOWN_BY_STATE:
            yield SourceProblem(True, issue_text(issue), f"details with: lmtb tools {here}")
    for command, messages in pending(server).items():
        things = "1 item waits" if len(messages) == 1 else f"{len(messages)} items wait"
        text = f"{things} for your trust"
        yield SourceProblem(False, text, f"review with: {command}", is_trust=True)


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
    lines = " and ".join(f'"export {name}=…"' for name in names)
    return (
        f"{source.get('id')} asked for {', '.join(names)}, which this shell has and the manager has not: "
        f"add {lines} to ~/.profile, run lmtb stop, and add to its entry: {passing_on(names)}"
    )


def source_step(source: Mapping[str, Any], root: str) -> str:
    """What helps with a source that is down, in the project at `root`."""
    here = f"--cwd {shlex.quote(root)}"
    name = shlex.quote(str(source.get("id")))
    if source.get("state") == "auth_required":
        return f"{_login_step(str(source.get('id')), root)}; or give its entry a valid token"
    step = f"retry now with: lmtb servers restart {name} {here}"
    return f"details with: lmtb servers {here}; {step}"


def is_login_here(root: str) -> bool:
    """Whether logins of a project at `root` are kept on this machine: they are on the project's own host."""
    from manager.routing.workspace.remote_address import split_root  # noqa: PLC0415  see below

    return split_root(root) is None


def _login_step(source: str, root: str) -> str:
    """How to sign in: on the project's own host, which keeps the login."""
    # loaded here: `lmtb status` is quick because it loads so little
    from manager.routing.workspace.remote_address import split_root  # noqa: PLC0415  see above

    place = split_root(root)
    entry = shlex.quote(source.partition(":")[2])
    if place is not None:
        there = f"lmtb servers login {entry} --cwd {shlex.quote(place.path)}"
        return f"sign in on its host, at a terminal there, with: {there}"
    return f"sign in with: lmtb servers login {entry} --cwd {shlex.quote(root)}"
