"""The verb adopt: moves servers of a project's client files into its `workspace.toml`, and back again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import click

from host.command_line import Failure, json_option, print_json
from host.printable import printable
from manager.cli.client.presentation import diff_lines, short, show_diff
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import root_of
from manager.client_files.adoption import WORKSPACE_FILE, Adoption
from manager.client_files.project_files import ProjectFiles
from manager.client_files.refusals import Refusal
from manager.client_files.workbench import Planned


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--undo", is_flag=True, help="Restore all files byte for byte as they were before.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cwd_option
@json_option
@click.pass_context
def adopt(ctx: click.Context, /, names: tuple[str, ...], undo: bool, **options: bool) -> None:
    """Move servers that clients start themselves into the project's workspace.toml.

    Reads .mcp.json, .vscode/mcp.json and .cursor/mcp.json, so that Claude Code, VS Code and Cursor start no
    second copy of these servers. Shows the change of every file and asks; writes all files or none. A server
    that workspace.toml cannot express stays where it is. Without NAME, all servers move.
    """
    if undo and names:
        raise click.UsageError("--undo restores all files: it takes no names")
    command = _Command(ProjectFiles(Path(root_of(ctx.obj)), user_paths().state_dir), **options)
    if undo:
        command.undo()
    else:
        command.adopt(names)


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the verb, with its options."""

    files: ProjectFiles
    dry_run: bool
    yes: bool
    as_json: bool

    def adopt(self, names: Sequence[str]) -> None:
        planned = self.files.plan(names)
        if isinstance(planned, Refusal):
            _fail(planned)
        adoption = planned.adoption
        self._check_names(names, adoption)
        self._show(planned.files, adoption)
        if not adoption.moved:
            why = "" if adoption.left else ": clients start no servers here"
            self._end("unchanged", f"nothing to move{why}", (), adoption)
        elif self._may(planned.files):
            refused = self.files.adopt(planned)
            if refused is not None:
                _fail(refused)
            self._end("done", self._next_steps(adoption), planned.files, adoption)
        else:
            result: _Result = "planned" if self.dry_run else "declined"
            self._end(result, "nothing was written", planned.files, adoption)

    def undo(self) -> None:
        planned = self.files.plan_undo()
        if isinstance(planned, Refusal):
            self._show_changed_since(planned)
            _fail(planned)
        self._show(planned)
        if not self._may(planned):
            self._end("planned" if self.dry_run else "declined", "nothing was written", planned)
            return
        refused = self.files.undo(planned)
        if refused is not None:
            _fail(refused)
        restored = ", ".join(short(one.state.path) for one in planned)
        self._end("done", f"restored: {restored or 'nothing, all files are as they were'}", planned)

    def _check_names(self, names: Sequence[str], adoption: Adoption) -> None:
        unknown = sorted(set(names) - {one.name for one in adoption.servers})
        if unknown:
            text = f"no client file of {short(self.files.root)} has a server named {', '.join(unknown)}"
            raise Failure(text, "see what can be moved: lmtb adopt --dry-run", reason="unknown_server")

    def _show(self, files: Sequence[Planned], adoption: Adoption | None = None) -> None:
        if self.as_json:
            return
        for file in files:
            show_diff(file.state.path, file.state.content, file.after)
        for one in adoption.left if adoption is not None else ():
            click.echo(printable(f"stays in {one.file.path}: {one.name}: {one.reason}"))

    def _show_changed_since(self, refusal: Refusal) -> None:
        if refusal.reason == "changed_since" and not self.as_json:
            for state, written in self.files.changed_since():
                show_diff(state.path, written, state.content)

    def _may(self, files: Sequence[Planned]) -> bool:
        if self.dry_run or self.yes or not files:
            return not self.dry_run
        if self.as_json or not sys.stdin.isatty():
            text = "this changes files, and there is no terminal to ask at"
            step = "look at the changes with --dry-run, then repeat the command with --yes"
            raise Failure(text, step, reason="not_confirmed")
        return click.confirm(f"Change {'this file' if len(files) == 1 else f'these {len(files)} files'}?")

    def _next_steps(self, adoption: Adoption) -> str:
        names = dict.fromkeys(one.name for one in adoption.moved)
        here = shlex.quote(str(self.files.root))
        return (
            f"moved to {WORKSPACE_FILE}: {', '.join(names)}\n"
            f"  undo: lmtb adopt --undo --cwd {here}\n"
            f"Next step: allow them to run with: lmtb trust {here}"
        )

    def _end(
        self, result: _Result, text: str, files: Sequence[Planned], adoption: Adoption | None = None
    ) -> None:
        if self.as_json:
            print_json({"ok": True, "result": result, **_as_json(files, adoption)})
        else:
            click.echo(printable(text, lines=True))


_Result = Literal["done", "planned", "declined", "unchanged"]


def _as_json(files: Sequence[Planned], adoption: Adoption | None) -> dict[str, Any]:
    changes = [
        {"file": str(path), "diff": list(diff_lines(path, one.state.content, one.after))}
        for one in files
        for path in [one.state.path]
    ]
    if adoption is None:
        return {"files": changes}
    moved = [{"name": one.name, "file": one.file.path} for one in adoption.moved]
    left = [{"name": one.name, "file": one.file.path, "reason": one.reason} for one in adoption.left]
    return {"files": changes, "moved": moved, "left": left}


def _fail(refusal: Refusal) -> NoReturn:
    raise Failure(refusal.message, refusal.next_step, reason=refusal.reason)
