"""The verb adopt: moves servers of clients' files into a `workspace.toml`, and back again.

Values that may be secret are masked in what is shown.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import parse_qsl, urlsplit

import click

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import USER_FILE, WORKSPACE_FILE, Adoption, Server
from lm_tools_bridge.client_setup.adoption.project_entry import LEADS_TO_US
from lm_tools_bridge.client_setup.change import FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.cli.context import user_machine
from lm_tools_bridge.client_setup.clients import CLIENTS
from lm_tools_bridge.client_setup.configured_entries import configuration_of
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import Planned
from lm_tools_bridge.terminal.command_line import Failure, confirm, examples, json_option, print_json, say
from lm_tools_bridge.text.jsonc_parser import Dialect
from manager.cli.output.file_changes import diff_lines, short, show_diff
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import root_of

MASK: Final = "********"
_SECRET_TABLES: Final = frozenset({"env", "environment", "headers", "http_headers", "oauth", "auth"})
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|passw|api-?_?key|auth|credential")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*|\{env:[^}]*\}")
_LEAST: Final = 4
"""Shorter values are masked only where they stand alone between quotation marks."""


def secrets_in(value: Any) -> frozenset[str]:
    """The texts in a decoded file that may be secret: of variables, headers, tokens, options and queries."""
    return frozenset(text for text in _secrets(value) if text and not _VARIABLE.fullmatch(text))


def secrets_of(files: Iterable[tuple[str, bytes | None]]) -> frozenset[str]:
    """The same of files with these names and contents; one that cannot be read has none."""
    secrets: set[str] = set()
    for name, content in files:
        text = decoded(content or b"", name)
        dialect = None if name.endswith(".toml") else Dialect(comments=True, trailing_commas=True)
        if isinstance(text, str):
            secrets |= secrets_in(value_at(text, FileFormat("", dialect), ()))
    return frozenset(secrets)


def masked(text: str, secrets: Collection[str]) -> str:
    """A line of a file without these texts, however they are written in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        for written in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
            if len(secret) >= _LEAST:
                text = text.replace(written, MASK)
            for mark in "\"'":
                text = text.replace(f"{mark}{written}{mark}", f"{mark}{MASK}{mark}")
    return text


def _secrets(value: Any, *, inside: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            hidden = inside or key in _SECRET_TABLES or bool(_SECRET_NAME.search(key))
            yield from _secrets(item, inside=hidden)
    elif isinstance(value, list):
        yield from _of_arguments(value)
        for item in value:
            yield from _secrets(item, inside=inside)
    elif isinstance(value, str):
        yield from [value, value.partition(" ")[2]] if inside else _of_address(value)


def _of_arguments(words: list[Any]) -> Iterator[str]:
    """The values of options such as `--token x`, `--token=x` and `TOKEN=x`."""
    texts = [word if isinstance(word, str) else "" for word in words]
    for word, following in zip_longest(texts, texts[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if _SECRET_NAME.search(name):
            yield value if equals else following if name.startswith("-") else ""


def _of_address(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        yield from filter(None, (parts.password, parts.username))
    except ValueError:
        return
    yield from (value for _, value in parse_qsl(parts.query))


@click.command(epilog=examples("lmtb adopt --dry-run", "lmtb adopt", "lmtb adopt --undo"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--user", is_flag=True, help="Move servers of your own files, for all projects.")
@click.option("--undo", is_flag=True, help="Take the last change back: put its servers back where they were.")
@click.option("--all", "everything", is_flag=True, help="With --undo: take all changes back.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cwd_option
@json_option
@click.pass_context
def adopt(
    ctx: click.Context, /, names: tuple[str, ...], user: bool, undo: bool, everything: bool, **options: bool
) -> None:
    """Move servers that clients start themselves into a workspace.toml.

    Without --user, reads the project's .mcp.json, .vscode/mcp.json and .cursor/mcp.json, and writes its
    workspace.toml. With --user, reads the files of Claude Code, Codex, Gemini CLI, opencode, VS Code and
    Cursor in your home folder, and writes your own workspace.toml, which counts in all projects. Afterwards,
    these clients start no second copy of the servers.

    Shows the change of every file and asks; writes all files or none. A server that workspace.toml cannot
    express stays where it is. Without NAME, all servers move.
    """
    if undo and names:
        raise click.UsageError("--undo restores all files: it takes no names")
    if everything and not undo:
        raise click.UsageError("--all is about --undo")
    if user and ctx.obj is not None:
        raise click.UsageError("--user is about no project: it takes no --cwd")
    command = _Command(_user_files() if user else _project_files(ctx.obj), **options)
    if undo:
        command.undo(whole=everything)
    else:
        command.adopt(names)


def _project_files(cwd: Path | None) -> ProjectFiles:
    return ProjectFiles(Path(root_of(cwd)), user_paths().state_dir)


def _user_files() -> UserFiles:
    paths = user_paths()
    return UserFiles(user_machine(), paths.state_dir, str(paths.config_dir / USER_FILE))


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the verb, with its options."""

    files: ProjectFiles | UserFiles
    dry_run: bool
    yes: bool
    as_json: bool

    @property
    def _is_user(self) -> bool:
        return isinstance(self.files, UserFiles)

    def adopt(self, names: Sequence[str]) -> None:
        planned = self.files.plan(names)
        if isinstance(planned, Refusal):
            _fail(planned)
        adoption = planned.adoption
        self._check_names(names, adoption)
        self._show(planned.files, adoption)
        if not adoption.moved:
            nothing = (
                "clients start no servers of your own files"
                if self._is_user
                else "clients start no servers here"
            )
            why = "" if self._left(adoption) else f": {nothing}"
            self._end("unchanged", f"nothing to move{why}", (), adoption)
        elif self._may(planned.files):
            refused = self.files.adopt(planned)
            if refused is not None:
                _fail(refused)
            self._end("done", self._next_steps(adoption), planned.files, adoption)
        else:
            result: _Result = "planned" if self.dry_run else "declined"
            self._end(result, "nothing was written", planned.files, adoption)

    def undo(self, *, whole: bool) -> None:
        planned = self.files.plan_undo(whole=whole)
        if isinstance(planned, Refusal):
            self._show_changed_since(planned)
            _fail(planned)
        self._show(planned.files)
        if not self._may(planned.files):
            self._end("planned" if self.dry_run else "declined", "nothing was written", planned.files)
            return
        refused = self.files.undo(planned)
        if refused is not None:
            _fail(refused)
        restored = ", ".join(short(file.state.path) for file in planned.files)
        text = f"restored: {restored or 'nothing, all files are as they were'}"
        if planned.earlier:
            count = len(planned.earlier)
            text += f"\n{count} earlier {'change' if count == 1 else 'changes'} can be taken back: "
            text += "lmtb adopt --undo, or all with --undo --all"
        self._end("done", text, planned.files)

    def _check_names(self, names: Sequence[str], adoption: Adoption) -> None:
        unknown = sorted(set(names) - {server.name for server in adoption.servers})
        if unknown:
            text = f"no client file of {short(self.files.root)} has a server named {', '.join(unknown)}"
            step = f"see what can be moved: lmtb adopt{' --user' * self._is_user} --dry-run"
            raise Failure(text, step, reason="unknown_server")

    def _show(self, files: Sequence[Planned], adoption: Adoption | None = None) -> None:
        if self.as_json:
            return
        mask = self._mask(files)
        for file in files:
            show_diff(file.state.path, file.state.content, file.after, mask=mask)
            if file.keeps_others:
                say(f"{short(file.state.path)} was changed since; what others wrote stays")
        for server in self._left(adoption) if adoption is not None else ():
            say(f"stays in {_where(server)}: {server.name}: {server.reason}")
        if self._is_user and files:
            say("close these clients first: one that runs may write its old content over the change")

    def _left(self, adoption: Adoption) -> list[Server]:
        """The servers to name. Of the user's files, our own entry belongs there."""
        return [server for server in adoption.left if not (self._is_user and server.reason == LEADS_TO_US)]

    def _mask(self, files: Sequence[Planned]) -> Callable[[str], str] | None:
        """What to mask in the changes; None for a project, whose files others read as well."""
        if not self._is_user:
            return None
        contents = [
            (file.state.path.name, text) for file in files for text in (file.state.content, file.after)
        ]
        return partial(masked, secrets=secrets_of(contents))

    def _show_changed_since(self, refusal: Refusal) -> None:
        if refusal.reason == "changed_since" and not self.as_json:
            for state, written in self.files.changed_since():
                planned = Planned(state, written)
                show_diff(state.path, written, state.content, mask=self._mask([planned]))

    def _may(self, files: Sequence[Planned]) -> bool:
        if self.dry_run or self.yes or not files:
            return not self.dry_run
        question = f"Change {'this file' if len(files) == 1 else f'these {len(files)} files'}?"
        step = "look at the changes with --dry-run, then repeat the command with --yes"
        return confirm(question, "this changes files", step=step)

    def _next_steps(self, adoption: Adoption) -> str:
        names = ", ".join(dict.fromkeys(server.name for server in adoption.moved))
        if isinstance(self.files, UserFiles):
            target, option, step = short(Path(self.files.target)), "--user", self._user_step(adoption)
        else:
            here = shlex.quote(str(self.files.root))
            target, option = WORKSPACE_FILE, f"--cwd {here}"
            step = f"allow those to run that were not trusted before: lmtb trust {here}"
        return f"moved to {target}: {names}\n  undo: lmtb adopt --undo {option}\nNext step: {step}"

    def _user_step(self, adoption: Adoption) -> str:
        """Clients lose what moved until they have us."""
        moved = {server.file.client for server in adoption.moved}
        machine = user_machine()
        without = [
            client.id
            for client in CLIENTS
            if client.title in moved and not configuration_of(client, machine, Path.cwd(), None).entries
        ]
        add = (
            f"connect these clients to LM Tools Bridge: lmtb client add {' '.join(without)}; then "
            if without
            else ""
        )
        return f"{add}restart {', '.join(sorted(moved))}, and look with: lmtb doctor"

    def _end(
        self, result: _Result, text: str, files: Sequence[Planned], adoption: Adoption | None = None
    ) -> None:
        if self.as_json:
            print_json({"result": result, **self._as_json(files, adoption)})
        else:
            say(*text.split("\n"))

    def _as_json(self, files: Sequence[Planned], adoption: Adoption | None) -> dict[str, Any]:
        mask = self._mask(files)
        changes = [
            {
                "file": str(path),
                "diff": list(diff_lines(path, file.state.content, file.after, mask=mask)),
            }
            for file in files
            for path in [file.state.path]
        ]
        if adoption is None:
            return {"files": changes}
        moved = [
            {"name": server.name, "file": server.file.path, "project": server.file.project}
            for server in adoption.moved
        ]
        staying = [
            {
                "name": server.name,
                "file": server.file.path,
                "project": server.file.project,
                "reason": server.reason,
            }
            for server in self._left(adoption)
        ]
        return {"files": changes, "moved": moved, "left": staying}


def _where(server: Server) -> str:
    where = short(Path(server.file.path))
    return where if server.file.project is None else f"{where} (for {short(Path(server.file.project))})"


_Result = Literal["done", "planned", "declined", "unchanged"]


def _fail(refusal: Refusal) -> NoReturn:
    raise Failure(refusal.message, refusal.next_step, reason=refusal.reason)
