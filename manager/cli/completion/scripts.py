"""Makes the completion scripts of shells, by click, and knows where each shell looks for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from manager.cli import COMPLETE_VARIABLE

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
