"""Runs `python -I -m workspace_server.command`, importing the module of a verb when it is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from workspace_server.command.arguments import UserFolders

_VERBS: Final = {
    "trust": ("trust", "trust"),
    "untrust": ("trust", "untrust"),
    "secrets": ("secrets", "secrets"),
    "tools": ("tool_settings", "tools"),
    "env": ("env", "env"),
    "login": ("sign_in", "login"),
}
"""Verb: (module in this package, name of the command in it)."""


class _Verbs(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, name = _VERBS[cmd_name]
        command: click.Command = getattr(import_module(f"workspace_server.command.{module}"), name)
        return command


_folder: Final = click.Path(path_type=Path)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config-dir", type=_folder, required=True, help="The user's configuration folder.")
@click.option("--state-dir", type=_folder, required=True, help="The user's state folder.")
@click.option("--runtime-dir", type=_folder, help="The user's runtime folder; no verb needs it yet.")
@click.option("--path", default=None, help="The manager's PATH, if known: workspace servers inherit it.")
@click.pass_context
def cli(
    ctx: click.Context, *, config_dir: Path, state_dir: Path, runtime_dir: Path | None, path: str | None
) -> None:
    """Decide what in a workspace may run, and with which secrets and environment."""
    ctx.obj = UserFolders(config_dir, state_dir, path)
    ctx.color = False if os.environ.get("NO_COLOR") else None  # None: depends on the terminal


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # characters that the terminal cannot encode must not raise
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="lmtb")


if __name__ == "__main__":
    main()
