"""The verb env: compares the environment of a workspace's programs with that of the user's shell.

A server that does not start often needs a program that only the shell finds. Of variables, only names are
shown; of PATH, its folders.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import json_option, print_json, say
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.processes import environment
from workspace_server.processes.login_shell import login_path

_SHELL_VARIABLES: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
"""Variables that every shell sets for itself."""
PROGRAMS: Final = ("npx", "uvx", "node", "python3", "git", "docker")
_ADVICE: Final = (
    "Next step: put its folder on the PATH in your shell's login file (~/.profile or ~/.zprofile), or give"
    " the whole path in the server's `command`; then lmtb stop: the next request starts everything anew."
)


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def env(folders: UserFolders, *, root: Path, as_json: bool) -> None:
    """Compare the environment of programs in the workspace ROOT with that of this shell."""
    folder = real_folder(root)
    mine = dict(os.environ)
    # without the manager's PATH, use the login shell's, which servers have at least
    search = asyncio.run(login_path({**mine, "PATH": folders.path or ""}))
    comparison = compare(mine, environment.inherited_by_server(mine, search, str(folder)))
    if as_json:
        print_json(comparison)
    else:
        _show(comparison, has_manager_path=folders.path is not None)


def compare(shell: Mapping[str, str], child: Mapping[str, str]) -> dict[str, Any]:
    """Compare two environments; of variables only the names.

    Returns:
        `path` (`child`, `onlyChild`, `onlyShell`, each a list of folders), `programs` (name -> `child` and
        `shell`, a path or None), `missing` (names that only the shell has, without its own), `changed`
        and `added` (names).
    """
    theirs, mine = _folders(child), _folders(shell)
    return {
        "path": {
            "child": theirs,
            "onlyChild": [variable for variable in theirs if variable not in mine],
            "onlyShell": [variable for variable in mine if variable not in theirs],
        },
        "programs": {name: {"child": _which(name, theirs), "shell": _which(name, mine)} for name in PROGRAMS},
        "missing": sorted(shell.keys() - child.keys() - _SHELL_VARIABLES),
        "changed": sorted(name for name in shell.keys() & child.keys() if shell[name] != child[name]),
        "added": sorted(child.keys() - shell.keys()),
    }


def _folders(environ: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(entry for entry in environ.get("PATH", "").split(os.pathsep) if entry))


def _which(name: str, folders: Sequence[str]) -> str | None:
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None


def _show(comparison: Mapping[str, Any], *, has_manager_path: bool) -> None:
    path = comparison["path"]
    say("PATH of programs in this workspace" + ("" if has_manager_path else " (as your login shell sets it)"))
    for entry in path["child"]:
        note = "   (not in this shell)" if entry in path["onlyChild"] else ""
        say(f"  {entry}{note}")
    for entry in path["onlyShell"]:
        say(f"  {entry}   (only in this shell)")
    say("", "Programs")
    hidden = [name for name, places in comparison["programs"].items() if _print_program(name, places)]
    say("")
    _say_names("Variables of this shell that they do not get", comparison["missing"])
    _say_names("Variables that differ", comparison["changed"])
    say("To give a server one of these variables, set it under `env` in the server's configuration.")
    if hidden:
        words = ", ".join(hidden)
        say("", f"Only this shell finds {words}.", _ADVICE)


def _print_program(name: str, places: Mapping[str, str | None]) -> bool:
    """Print where a program is. Returns whether only the shell finds it."""
    child, shell = places["child"], places["shell"]
    if child is None and shell is None:
        text = "nowhere"
    elif child is None:
        text = f"not found (this shell: {shell})"
    elif child == shell:
        text = child
    else:
        text = f"{child} (this shell: {shell or 'not found'})"
    say(f"  {name:8} {text}")
    return child is None and shell is not None


def _say_names(label: str, names: Sequence[str]) -> None:
    say(f"{label}: {', '.join(names) or 'none'}")
