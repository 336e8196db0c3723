"""The verb outdated: compares the pinned versions of servers with the newest ones. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.published_servers.add_verb import PROJECT_FILE, USER_FILE, project_root
from lm_tools_bridge.published_servers.package_index import PublishedPackage, look_up
from lm_tools_bridge.published_servers.pinned_servers import PinnedServer, is_newer, pinned_servers
from lm_tools_bridge.published_servers.server_names import Refusal
from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.printable import operand
from lm_tools_bridge.text.toml_text import parse_toml
from manager.cli.output.file_changes import short
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option

# Packages that are looked up: each is a program started, and nobody has as many servers.
MOST_SERVERS: Final = 50
# Each of these programs takes a processor for a second.
_AT_A_TIME: Final = 4
# A larger file of a project has no effect in a workspace server, either.
_MAX_FILE: Final = 1024 * 1024
_COLUMNS: Final = (
    Column("SERVER", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("PINNED", Kind.NAME),
    Column("NEWEST", Kind.NAME),
    Column("PACKAGE", Kind.NAME, rank=1),
    Column("FILE", Kind.TEXT, rank=2),
    Column("PROBLEM", Kind.DETAIL),
)


class _Row(NamedTuple):
    """A pinned server of a file, and what its index says now."""

    file: Path
    is_own: bool
    server: PinnedServer
    newest: PublishedPackage | Refusal

    @property
    def state(self) -> str:
        if isinstance(self.newest, Refusal):
            return "unknown"
        is_old = is_newer(self.newest.package.version, self.server.package.version)
        return "outdated" if is_old else "current"

    @property
    def version(self) -> str:
        return "" if isinstance(self.newest, Refusal) else self.newest.package.version

    def command(self) -> str:
        """What changes its version."""
        package = self.server.package
        where = " --user" if self.is_own else ""
        name = operand(self.server.namespace)
        return f"lmtb add {package.index}:{package.name}@{self.version} --as {name}{where}"


@click.command(epilog=examples("lmtb outdated", "lmtb outdated --json"))
@cwd_option
@json_option
@click.pass_obj
def outdated(cwd: Path | None, *, as_json: bool) -> None:
    """Show servers that are pinned to a version, and which of them have newer ones.

    Reads your own workspace.toml and that of the project, and asks npm and uv. Changes nothing.
    """
    with waiting("asking npm and uv"):
        rows = list(_rows(cwd))
    if as_json:
        print_json({"servers": [_as_json(row) for row in rows]})
        return
    if not rows:
        say("No server is pinned to a version of a package.")
        return
    cells = [
        (
            row.server.namespace,
            row.state,
            row.server.package.version,
            row.version,
            f"{row.server.package.index}:{row.server.package.name}",
            short(row.file),
            row.newest.message if isinstance(row.newest, Refusal) else "",
        )
        for row in rows
    ]
    say(Table(_COLUMNS, cells))
    old = [row for row in rows if row.state == "outdated"]
    say(*(f"Next step: look at the new version, then: {row.command()}" for row in old))
    if not old:
        say(Note("No pinned server has a newer version.", Tone.GOOD))


def _rows(cwd: Path | None) -> Iterator[_Row]:
    pins = [*_pins(user_paths().config_dir / USER_FILE, is_own=True)]
    pins += _pins(project_root(cwd) / PROJECT_FILE, is_own=False)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        packages = [replace(server.package, version="") for _, _, server in pins[:MOST_SERVERS]]
        newest = pool.map(look_up, packages)
        for (file, is_own, server), answer in zip(pins[:MOST_SERVERS], newest, strict=True):
            yield _Row(file, is_own, server, answer)


def _pins(file: Path, *, is_own: bool) -> list[tuple[Path, bool, PinnedServer]]:
    try:
        content = project_file.read(file.resolve() if is_own else file, _MAX_FILE) or b""
        document: dict[str, Any] = parse_toml(content.decode("utf-8-sig"))
    except (OSError, UnsafePathError, ValueError, RecursionError) as error:
        raise Failure(f"{file} cannot be read: {error}", "correct the file", reason="unreadable") from error
    return [(file, is_own, server) for server in pinned_servers(document)]


def _as_json(row: _Row) -> dict[str, Any]:
    package = row.server.package
    return {
        "namespace": row.server.namespace,
        "package": f"{package.index}:{package.name}",
        "pinned": package.version,
        "newest": row.version or None,
        "state": row.state,
        "file": str(row.file),
        "problem": row.newest.message if isinstance(row.newest, Refusal) else None,
    }
