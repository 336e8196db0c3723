"""The verb adopt: has servers that clients start themselves run from here only, and takes that back.

Values that may be secret are masked in what is shown of the user's own files.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import click

from lm_tools_bridge.client_setup.adoption.adoption_files import PlannedUndo, ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import USER_FILE
from lm_tools_bridge.client_setup.adoption.moved_servers import MovedServers
from lm_tools_bridge.client_setup.adoption.sharing import (
    Share,
    find_projects,
    plan_for_project,
    plan_for_user,
)
from lm_tools_bridge.client_setup.cli.context import known_projects, user_machine
from lm_tools_bridge.client_setup.cli.share_texts import (
    changes_json,
    list_left,
    mask_of,
    next_step,
    share_json,
    show_share,
    texts_of,
)
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import Planned
from lm_tools_bridge.terminal.command_line import Failure, confirm, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note, Tone
from manager import exit_codes
from manager.cli.output.file_changes import short, show_diff
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import root_of


@click.command(epilog=examples("lmtb adopt --dry-run", "lmtb adopt", "lmtb adopt --all", "lmtb adopt --undo"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--user", is_flag=True, help="Move servers of your own files, for all projects.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="In all projects that are known here. With --undo: take all changes back.",
)
@click.option(
    "--move/--keep",
    "moves",
    default=None,
    help="Move servers to workspace.toml, or keep .mcp.json. [default: --keep in a repository of git]",
)
@click.option("--undo", is_flag=True, help="Take the last change back: put its servers back where they were.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cwd_option
@json_option
@click.pass_context
def adopt(
    ctx: click.Context, /, names: tuple[str, ...], user: bool, everything: bool, **options: Any
) -> None:
    """Run servers of clients' files from here only, so that no client starts a copy of its own.

    In a repository of git, .mcp.json stays as it is, and so nothing changes for colleagues: Claude Code is
    told in .claude/settings.local.json not to start its servers. Elsewhere, and with --move, the servers of
    .mcp.json, .vscode/mcp.json and .cursor/mcp.json move to the project's workspace.toml. With --user, those
    of Claude Code, Codex, Gemini CLI, opencode, VS Code and Cursor in your home folder move to your own
    workspace.toml, which counts in all projects.

    Shows the change of every file and asks; writes all files of a project or none. A server that cannot run
    here as it does there stays. Without NAME, all servers are meant.
    """
    undo, moves = options.pop("undo"), options.pop("moves")
    _check_usage(ctx, names, user=user, everything=everything, moves=moves, undo=undo)
    is_everywhere = everything and not user and ctx.obj is None
    if user:
        every: list[ProjectFiles | UserFiles] = [_user_files()]
    elif not is_everywhere:
        every = [ProjectFiles(Path(root_of(ctx.obj)), user_paths().state_dir)]
    else:
        every = _changed_projects() if undo else _known_projects()
    command = _Command(every, is_everywhere, moves, **options)
    if undo:
        command.undo(whole=everything)
    else:
        command.adopt(names)


def _check_usage(
    ctx: click.Context, names: Sequence[str], *, user: bool, everything: bool, moves: bool | None, undo: bool
) -> None:
    if undo and (names or moves is not None):
        raise click.UsageError("--undo restores all files: it takes no names, --move or --keep")
    if names and everything:
        raise click.UsageError("--all is about all servers: it takes no names")
    if user and ctx.obj is not None:
        raise click.UsageError("--user is about no project: it takes no --cwd")
    if user and moves is False:
        raise click.UsageError(
            "--user moves servers: clients cannot be told not to start those of your own files"
        )
    if everything and not undo and (user or ctx.obj is not None):
        raise click.UsageError("--all is about all projects: it takes no --user or --cwd")


def _user_files() -> UserFiles:
    paths = user_paths()
    return UserFiles(user_machine(), paths.state_dir, str(paths.config_dir / USER_FILE))


def _known_projects() -> list[ProjectFiles | UserFiles]:
    state_dir = user_paths().state_dir
    return [ProjectFiles(root, state_dir) for root in find_projects(user_machine(), known_projects())]


def _changed_projects() -> list[ProjectFiles | UserFiles]:
    places = MovedServers.find_all(user_paths(), user_machine().home).places
    return [files for _, files in places if isinstance(files, ProjectFiles)]


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the verb, with its options.

    Attributes:
        every: the files of each project, or those of the user.
        is_everywhere: whether a project that is refused does not hinder the others.
    """

    every: Sequence[ProjectFiles | UserFiles]
    is_everywhere: bool
    moves: bool | None
    dry_run: bool
    yes: bool
    as_json: bool

    def adopt(self, names: Sequence[str]) -> None:
        shares, refusals = self._plans(names)
        for share in shares:
            _check_names(share, names)
            if not self.as_json:
                show_share(share.files, share.planned.files, share.planned.adoption)
        changing = [share for share in shares if share.planned.files]
        changed_files = [file for share in changing for file in share.planned.files]
        if not changing:
            self._end("unchanged", _nothing_to_do(shares), shares)
        elif not self._may(changed_files):
            self._end("planned" if self.dry_run else "declined", ["nothing was written"], shares)
        else:
            done = [share for share in changing if self._is_done(share, refusals)]
            self._end("done", [line for share in done for line in texts_of(share)], shares, done)
        if refusals:
            raise SystemExit(exit_codes.FAILED)

    def _plans(self, names: Sequence[str]) -> tuple[list[Share], list[Refusal]]:
        """The plans, and the refusals, of which each is told."""
        shares: list[Share] = []
        refusals: list[Refusal] = []
        for files in self.every:
            if isinstance(files, UserFiles):
                share = plan_for_user(files, names)
            else:
                share = plan_for_project(files, user_machine(), names, moves=self.moves)
            if isinstance(share, Refusal):
                self._refuse(files, share, refusals)
            else:
                shares.append(share)
        return shares, refusals

    def _is_done(self, share: Share, refusals: list[Refusal]) -> bool:
        refused = share.files.adopt(share.planned)
        if refused is not None:
            self._refuse(share.files, refused, refusals)
        return refused is None

    def _refuse(self, files: ProjectFiles | UserFiles, refusal: Refusal, refusals: list[Refusal]) -> None:
        """Tell of a refusal; alone, it ends the command."""
        if not self.is_everywhere:
            _fail(refusal)
        refusals.append(refusal)
        problem = Note(f"{short(files.root)}: {refusal.message}", Tone.BAD)
        say(problem, f"Next step: {refusal.next_step}", err=True)

    def undo(self, *, whole: bool) -> None:
        plans: list[tuple[ProjectFiles | UserFiles, PlannedUndo]] = []
        refusals: list[Refusal] = []
        for files in self.every:
            planned = files.plan_undo(whole=whole)
            if isinstance(planned, Refusal):
                self._show_changed_since(files, planned)
                self._refuse(files, planned, refusals)
            else:
                plans.append((files, planned))
                if not self.as_json:
                    show_share(files, planned.files)
        changed_files = [file for _, planned in plans for file in planned.files]
        if plans and not self._may(changed_files):
            self._end_undo("planned" if self.dry_run else "declined", ["nothing was written"], changed_files)
            return
        lines = [line for files, planned in plans for line in self._undone(files, planned, refusals)]
        self._end_undo("done", lines or ["nothing to undo"], changed_files)
        if refusals:
            raise SystemExit(exit_codes.FAILED)

    def _undone(
        self, files: ProjectFiles | UserFiles, planned: PlannedUndo, refusals: list[Refusal]
    ) -> list[str]:
        """Take a plan's changes back; what to say of it."""
        refused = files.undo(planned)
        if refused is not None:
            self._refuse(files, refused, refusals)
            return []
        restored = ", ".join(short(file.state.path) for file in planned.files)
        lines = [f"restored: {restored or 'nothing, all files are as they were'}"]
        if planned.earlier:
            count = len(planned.earlier)
            scope = "--user" if isinstance(files, UserFiles) else f"--cwd {shlex.quote(str(files.root))}"
            lines.append(
                f"{count} earlier {'change' if count == 1 else 'changes'} can be taken back: "
                f"lmtb adopt --undo {scope}, or all with --undo --all {scope}"
            )
        return lines

    def _show_changed_since(self, files: ProjectFiles | UserFiles, refusal: Refusal) -> None:
        if refusal.reason == "changed_since" and not self.as_json:
            for state, written in files.changed_since():
                mask = mask_of(files, [Planned(state, written)])
                show_diff(state.path, written, state.content, mask=mask)

    def _may(self, files: Sequence[Planned]) -> bool:
        if self.dry_run or self.yes or not files:
            return not self.dry_run
        question = f"Change {'this file' if len(files) == 1 else f'these {len(files)} files'}?"
        step = "look at the changes with --dry-run, then repeat the command with --yes"
        return confirm(question, "this changes files", step=step)

    def _end(
        self, result: _Result, lines: Sequence[str], shares: Sequence[Share], done: Sequence[Share] = ()
    ) -> None:
        if not self.as_json:
            say(*lines or ["nothing was changed"])
            if done:
                say(f"Next step: {next_step(done)}")
        elif not self.is_everywhere:
            members = share_json(shares[0]) if shares else {}
            files = members.pop("files", [])
            print_json({"result": result, "files": files if result != "unchanged" else [], **members})
        else:
            print_json({"result": result, "projects": [share_json(share) for share in shares]})

    def _end_undo(self, result: _Result, lines: Sequence[str], files: Sequence[Planned]) -> None:
        if self.as_json:
            print_json(
                {
                    "result": result,
                    "files": changes_json(files, mask_of(self.every[0], files) if self.every else None),
                }
            )
        else:
            say(*lines)


_Result = Literal["done", "planned", "declined", "unchanged"]


def _check_names(share: Share, names: Sequence[str]) -> None:
    unknown = sorted(set(names) - {server.name for server in share.planned.adoption.servers})
    if unknown:
        is_user = isinstance(share.files, UserFiles)
        text = f"no client file of {short(share.files.root)} has a server named {', '.join(unknown)}"
        step = f"see what can be moved: lmtb adopt{' --user' * is_user} --dry-run"
        raise Failure(text, step, reason="unknown_server")


def _nothing_to_do(shares: Sequence[Share]) -> list[str]:
    if any(list_left(share.files, share.planned.adoption) for share in shares):
        return ["nothing to change"]
    if shares and isinstance(shares[0].files, UserFiles):
        return ["nothing to change: clients start no servers of your own files"]
    return ["nothing to change: clients start no servers here"]


def _fail(refusal: Refusal) -> NoReturn:
    raise Failure(refusal.message, refusal.next_step, reason=refusal.reason)
