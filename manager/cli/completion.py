"""The verb completion: prints or installs click's script by which a shell completes words of `lmtb`.

It also suggests names of tools, sources, clients, workspaces and secrets for arguments. A suggestion starts
nothing, says nothing and fails never: where nobody can be asked in time, there is none.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.terminal.command_line import Failure, confirm, examples, json_option, print_json, say
from manager.cli import COMPLETE_VARIABLE, workspace_command
from manager.cli.output.file_changes import short, show_diff
from manager.cli.output.manager_access import current_folder, user_paths
from manager.client import Control
from manager.status_reading import first_sentence, objects

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


Shell = Literal["bash", "zsh", "fish"]
SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")
_PROGRAMS: Final = ("lmtb", "lm-tools-bridge")
_CLASSES: Final[Mapping[Shell, type[ShellComplete]]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


def script(shell: Shell, program: str = "lmtb") -> str:
    """The script that completes the words after a program's name."""
    completion = _CLASSES[shell](click.Group(), {}, program, COMPLETE_VARIABLE)
    return completion.source_template % completion.source_vars()


def places(shell: Shell, environ: Mapping[str, str], home: Path) -> dict[Path, str]:
    """The files to install, with their contents: one for each name of the program."""
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    folder, form = {
        "bash": (data / "bash-completion" / "completions", "{}"),
        "zsh": (data / "zsh" / "site-functions", "_{}"),
        "fish": (config / "fish" / "completions", "{}.fish"),
    }[shell]
    return {folder / form.format(program): script(shell, program) for program in _PROGRAMS}


def next_step(shell: Shell, folder: Path) -> str:
    """What makes a shell use the installed files."""
    if shell == "zsh":
        return f"add this to ~/.zshrc, before compinit, and open a new shell: fpath=({folder} $fpath)"
    if shell == "bash":
        return "open a new shell; it needs the package bash-completion"
    return "open a new shell"


@click.command(epilog=examples("lmtb completion bash --install"))
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write it to where the shell looks for it. Shows it, and asks.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def completion(shell: Shell, install: bool, yes: bool, as_json: bool) -> None:
    """Complete verbs, options, and names of tools, servers, clients and secrets in a shell.

    Prints the shell's script. To try it in bash: eval "$(lmtb completion bash)". Completion starts nothing;
    names of tools and servers are those of a workspace's server that runs.
    """
    if not install:
        if as_json:
            print_json({"shell": shell, "script": script(shell)})
        else:
            click.echo(script(shell), nl=False)
        return
    user_paths()  # fails with the next step if there is no home folder
    texts = places(shell, os.environ, Path.home())
    changed = [path for path, text in texts.items() if _content(path) != text.encode()]
    if changed:
        _write_files({path: texts[path] for path in changed}, yes=yes, as_json=as_json)
    step = next_step(shell, next(iter(texts)).parent)
    if as_json:
        result = "done" if changed else "unchanged"
        print_json(
            {"shell": shell, "result": result, "files": [str(path) for path in texts], "nextStep": step}
        )
    say(f"{'installed' if changed else 'already installed'}: {', '.join(short(path) for path in texts)}")
    say(f"Next step: {step}")


def _write_files(files: dict[Path, str], *, yes: bool, as_json: bool) -> None:
    for path, text in files.items():
        if not as_json:
            show_diff(path, _content(path), text.encode())
    if not (
        yes or confirm(f"Write {'these files' if len(files) > 1 else 'this file'}?", "this writes files")
    ):
        raise Failure("nothing was written", "run it again when you have decided", reason="declined")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            private_files.write(path, text.encode(), 0o644)
        except OSError as error:
            step = "check the disk and its folder, or source the script yourself"
            raise Failure(f"{path}: {error.strerror}", step, reason="write_failed") from error


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
