"""The verb languages: which server answers for which language of a project, and why others do not."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.code_intelligence.kinds.available_kinds import ROLES, AvailableKinds, available_kinds
from lm_tools_bridge.code_intelligence.kinds.candidates import Candidate
from lm_tools_bridge.code_intelligence.kinds.programs import path_outside
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import TYPESCRIPT, TYPESCRIPT_LANGUAGE_SERVER
from lm_tools_bridge.code_intelligence.kinds.table import OLDER_TYPESCRIPT
from lm_tools_bridge.code_intelligence.project_setup import ProjectSetup, look_at_project, setup_of
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.settings import CodeSettings
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification
from lm_tools_bridge.terminal.command_line import json_option, print_json
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.trust import FOLDER
from workspace_server.config.load import ConfigurationLoader
from workspace_server.processes import environment
from workspace_server.processes.login_shell import login_environment
from workspace_server.trust.store import TrustStore
from workspace_server.workspace import Workspace

TIME_S: Final = 5.0
"""A program prints its version at once; only those that start a Java machine take a second or two."""
_MAX_OUTPUT: Final = 10_000
"""Bytes: the version stands in the first lines."""
_VERSION: Final = re.compile(rb"\d+\.\d+[\w.+-]*")
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "gopls": ("version",),
    "go-vet": ("version",),
    **dict.fromkeys(
        (
            "cargo-check",
            "clangd",
            "eslint-check",
            "mypy",
            "pyrefly",
            "ruff",
            "rust-analyzer",
            "tsc",
            "ty",
            "typescript",
            "typescript-language-server",
            "vtsls",
            "zls",
        ),
        ("--version",),
    ),
}
"""Others would start as a server, and wait for a client."""


def version_of(name: str, program: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The version of a kind's program; None if it does not say within five seconds.

    Args:
        name: the kind's.
        program: the beginning of its command line. It must be allowed to run.
        environ: its environment.
    """
    arguments = _ARGUMENTS.get(name)
    if arguments is None:
        return None
    try:
        ended = subprocess.run(
            [*program, *arguments],
            capture_output=True,
            check=False,
            cwd="/",  # in the project, rustup would choose the toolchain that the project names
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=TIME_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(ended.stdout[:_MAX_OUTPUT])
    return None if version is None else version[0].decode("ascii", "replace")[:40]


_STATES: Final = {"untrusted": "pending_trust"}
"""The words of `lmtb servers` for the same."""


@dataclass(frozen=True, slots=True)
class Row:
    """One server: what it is asked for, and where it is or why it does not run.

    Attributes:
        install: the server that `lmtb languages install` would get, this or a better one; empty for none.
    """

    kind: ServerSpecification
    roles: tuple[Role, ...]
    place: Candidate | Unavailable
    install: str = ""


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@click.option("--no-versions", is_flag=True, help="Start no program.")
@json_option
@click.pass_obj
def languages(folders: UserFolders, /, root: Path, *, no_versions: bool, **_: bool) -> None:
    """Tell which language servers the workspace ROOT has. Starts none; programs are asked for versions."""
    folder = real_folder(root)
    variables = dict(os.environ) if folders.path is None else {**os.environ, "PATH": folders.path}
    shell = variables if no_versions else asyncio.run(login_environment(variables))
    search = shell.get("PATH", "")
    configuration = ConfigurationLoader(folder, folders.config_dir, variables).current()
    settings: CodeSettings = configuration.features["code_intelligence"]
    known_variables = {**shell, **variables}
    kinds = available_kinds(
        folder,
        settings.entries,
        search,
        _verdicts(folders, folder, inherits=configuration.inherits_trust),
        variables=lambda: known_variables,
        python_environment=settings.python_environment,
    )
    rows = list(_rows(kinds)) if settings.enabled else []
    roots = [root.path for root in Workspace.of(folder).folders]
    snapshot = look_at_project(roots, [row.kind for row in rows])
    outside = path_outside(search, (folder,))  # e.g. `node`, which runs many of them
    environ = environment.inherited_by_server(variables, outside, str(folder))
    with ThreadPoolExecutor(4) as threads:
        versions = threads.map(lambda row: None if no_versions else _version(row, environ), rows)
        described = list(zip(rows, _languages(kinds, rows), versions, strict=True))
        servers = [
            _as_json(row, served, version, setup_of(row.kind, roots, snapshot))
            for row, served, version in described
        ]
    has_python = any("python" in served for _, served, _ in described)
    members = {"pythonEnvironment": _environment_members(kinds)} if has_python else {}
    print_json({"root": str(folder), "enabled": settings.enabled, "servers": servers, **members})


def _environment_members(kinds: AvailableKinds) -> dict[str, str] | None:
    """The environment that servers for Python are given, and who names it; None if there is none."""
    environment_of_python = kinds.python_environment()
    if environment_of_python is None:
        return None
    return {"path": str(environment_of_python.path), "namedBy": environment_of_python.origin}


def _verdicts(folders: UserFolders, root: Path, *, inherits: bool) -> Any:
    store = TrustStore(folders.state_dir / FOLDER)
    store.inherits = inherits
    return lambda digests: store.verdicts(root, digests)


def _rows(kinds: AvailableKinds) -> Iterator[Row]:
    """The servers that are asked, and those that would be if they were installed or trusted."""
    roles: dict[str, dict[Role, None]] = {}
    places: dict[str, tuple[ServerSpecification, Candidate | Unavailable]] = {}
    for role in ROLES:
        for group in kinds.choose_kinds(role, None):
            for kind, place in _worth_telling(kinds, group):
                roles.setdefault(kind.name, {})[role] = None
                places[kind.name] = (kind, place)
    for name, (kind, place) in places.items():
        yield Row(kind, tuple(roles[name]), place, _install(kinds, kind, place))


def _install(kinds: AvailableKinds, kind: ServerSpecification, place: Candidate | Unavailable) -> str:
    """The server to install in place of this row's, or beside it; empty for none."""
    if _state(place) == "missing" and not kinds.lacks_other_program(kind):
        return kind.name if kind.package is not None else ""
    if kind.name != TYPESCRIPT.name or not kind.doubt or not isinstance(place, Candidate):
        return ""
    older = (kinds.kind_named(name) for name in sorted(OLDER_TYPESCRIPT))
    states = {other.name: _state(kinds.locate(other)) for other in older if other is not None}
    return TYPESCRIPT_LANGUAGE_SERVER.name if set(states.values()) == {"missing"} else ""


def _worth_telling(
    kinds: AvailableKinds, group: Sequence[ServerSpecification]
) -> list[tuple[ServerSpecification, Candidate | Unavailable]]:
    """Of alternatives the one that is asked, and better ones that wait; else the best one to install."""
    located = []
    for kind in group:
        located.append((kind, kinds.locate(kind)))
        if isinstance(located[-1][1], Candidate):
            break
    candidates = [pair for pair in located if _state(pair[1]) != "missing"]
    is_served = any(isinstance(place, Candidate) and not kind.limits for kind, place in candidates)
    waits = any(isinstance(place, Unavailable) for _, place in candidates)
    return (
        candidates
        if is_served or waits
        else [*located[:1], *(pair for pair in candidates if pair != located[0])]
    )


def _languages(kinds: AvailableKinds, rows: Sequence[Row]) -> Iterator[Sequence[str]]:
    """The languages of each row; of a server by syntax those that no other serves."""
    of_others = {
        language
        for row in rows
        if isinstance(row.place, Candidate) and "symbols" in row.roles and not row.kind.limits
        for language in kinds.languages_of(row.kind)
    }
    for row in rows:
        left_out = of_others if row.kind.limits else set()
        yield [language_id for language_id in kinds.languages_of(row.kind) if language_id not in left_out]


def _state(place: Candidate | Unavailable) -> str:
    return "installed" if isinstance(place, Candidate) else _STATES.get(place.state, place.state)


def _lack(row: Row, setup: ProjectSetup) -> str | None:
    """Why a server does not run, or what its answers lack."""
    if isinstance(row.place, Unavailable):
        return row.place.reason
    return row.kind.limits or row.kind.doubt or setup.lack or None


def _version(row: Row, environ: Mapping[str, str]) -> str | None:
    if isinstance(row.place, Unavailable):
        return None
    return version_of(row.kind.name, row.place.program.command, environ)


def _as_json(row: Row, served: Sequence[str], version: str | None, setup: ProjectSetup) -> dict[str, Any]:
    there = row.place if isinstance(row.place, Candidate) else None
    return {
        "server": row.kind.name,
        "languages": list(served),
        "roles": list(row.roles),
        "oneShot": row.kind.check is not None,
        "state": _state(row.place),
        "program": None if there is None else str(there.program.path),
        "origin": None if there is None else there.program.origin,
        "version": version,
        "projectFiles": list(setup.files),
        "moreProjectFiles": setup.more_files,
        "reason": _lack(row, setup),
        "install": row.install or None,
    }
