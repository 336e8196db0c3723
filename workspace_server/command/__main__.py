"""Runs `python -I -m workspace_server.command`, importing the module of a verb when it is used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from lm_tools_bridge.terminal.deciding_verbs import DecidingGroup, ForAnyone, never_decides
from lm_tools_bridge.terminal.screen import has_colour
from workspace_server.command.arguments import UserFolders
from workspace_server.features import FEATURES

_VERBS: Final = {
    "trust": "trust",
    "untrust": "trust",
    "pending": "trust",
    "secrets": "secrets",
    "tools": "tool_settings",
    "env": "env",
    "sandbox": "sandbox",
    "login": "sign_in",
}
"""Verb: module in this package, which has a command of the verb's name."""
_OF_FEATURES: Final = {
    verb: (f"lm_tools_bridge.{feature.name}.{module}", verb)
    for feature in FEATURES
    for verb, module in feature.commands.items()
}
_MODULES: Final = {
    **{verb: (f"workspace_server.command.{module}", verb) for verb, module in _VERBS.items()},
    **_OF_FEATURES,
}
FOR_ANYONE: Final[ForAnyone] = dict.fromkeys(
    # `trust` shows first, and asks who runs it when it comes to trust something
    ("trust", "pending", "secrets list", "tools", "env", *_OF_FEATURES),
    never_decides,
)
_folder: Final = click.Path(path_type=Path)


@click.group(
    cls=DecidingGroup,
    modules=_MODULES,
    for_anyone=FOR_ANYONE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    ctx.color = has_colour(sys.stdout)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # characters that the terminal cannot encode must not raise
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="lmtb")


if __name__ == "__main__":
    main()
