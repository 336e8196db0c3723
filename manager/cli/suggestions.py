"""Suggests names of tools, sources, clients, workspaces and secrets to a shell that completes a word.

A suggestion starts nothing, says nothing and fails never: where nobody can be asked in time, there is none.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from manager.cli import workspace_command
from manager.cli.output.manager_access import current_folder, user_paths
from manager.client import Control
from manager.status_reading.responses import first_sentence, objects

ANSWER_S: Final = 0.25
"""Longest wait for the manager, and for the list of secrets."""
_NOT_WORKSPACES: Final = frozenset({"manager", "template"})
"""Logs of other programs."""

Suggest = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]
_Find = Callable[[click.Context], Iterable[tuple[str, str | None]]]


def suggesting(find: _Find) -> Suggest:
    """The suggestions among names that `find` yields, each with its meaning."""

    def suggest(ctx: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem[str]]:
        try:
            names = dict(find(ctx))
        except Exception:  # noqa: BLE001  a message in the middle of a half-typed line helps nobody
            return []
        return [CompletionItem(name, help=about) for name, about in names.items() if name.startswith(begun)]

    return suggest


def _tools(ctx: click.Context) -> Iterable[tuple[str, str | None]]:
    for tool in objects(_inspected(ctx), "tools"):
        if tool.get("state") == "callable":
            yield str(tool["name"]), first_sentence(tool.get("description")) or None


def _all_tools(ctx: click.Context) -> Iterable[tuple[str, str | None]]:
    for tool in objects(_inspected(ctx), "tools"):
        yield str(tool["name"]), first_sentence(tool.get("description")) or None


def _sources(ctx: click.Context) -> Iterable[tuple[str, str | None]]:
    """Without the part before the colon, at which bash parts words."""
    for source in objects(_inspected(ctx), "sources"):
        yield str(source["id"]).rpartition(":")[2], str(source.get("state"))


def logged_workspaces() -> list[str]:
    """The ids of the workspaces that have a log."""
    files = sorted(user_paths().logs_dir.glob("*.log"))
    return [file.stem for file in files if file.stem not in _NOT_WORKSPACES and "." not in file.stem]


def _workspaces(_: click.Context) -> Iterable[tuple[str, str | None]]:
    return ((workspace, None) for workspace in logged_workspaces())


def _secrets(_: click.Context) -> Iterable[tuple[str, str | None]]:
    output = subprocess.run(
        workspace_command.command_line("secrets", "list", "--json"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ANSWER_S,
        check=True,
    )
    return ((str(key), None) for key in json.loads(output.stdout)["keys"])


def _inspected(ctx: click.Context) -> dict[str, Any]:
    """What the server of the folder's workspace offers, if it runs."""
    folder = current_folder(ctx.obj if isinstance(ctx.obj, Path) else ctx.params.get("cwd"))
    control = Control(user_paths().control_socket, ANSWER_S)
    if control.post("/resolve", {"cwd": folder})["match"]["state"] != "ready":
        return {}
    return control.post("/inspect", {"cwd": folder})


callable_tools: Final = suggesting(_tools)
tools: Final = suggesting(_all_tools)
sources: Final = suggesting(_sources)
workspaces: Final = suggesting(_workspaces)
secrets: Final = suggesting(_secrets)
