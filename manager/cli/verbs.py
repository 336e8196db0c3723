"""Which verbs `lmtb` has. Each lives in a module of its own, loaded when used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from manager import __version__

_SECTIONS: Final = {
    "The manager": {
        "serve": ("serve", "Run the manager in the foreground."),
        "stop": ("stop", "Stop the manager and wait until it is gone."),
        "status": ("show", "Show how the manager and its workspaces are."),
        "workspaces": ("show", "List workspaces and their servers."),
        "sessions": ("show", "List the sessions of connected clients."),
        "whoami": ("whoami", "Show which clients asked, and why they got their workspace."),
        "log": ("show", "Show what the manager itself logged last."),
    },
    "The workspace of the current folder": {
        "trust": ("content", "See what it brings along, and let that run."),
        "untrust": ("content", "Let nothing that it brings along run any more."),
        "tools": ("tools", "List its tools, and choose among them."),
        "servers": ("servers", "List where its tools come from; restart, sign in."),
        "call": ("call", "Call one of its tools."),
        "logs": ("logs", "Show what its server and their programs wrote."),
    },
    "Everywhere": {
        "connect": ("connect", "Be an MCP server for a client that can only start programs."),
        "secrets": ("content", "Keep tokens that servers need."),
        "doctor": ("doctor.verb", "Look for what is wrong, and say what to do."),
        "demo": ("demo.tour", "Show everything on sample workspaces, then tidy up."),
    },
}
"""Verb: (module in this package, which has a command of the verb's name; line for the overview)."""
_VERBS: Final = {verb: entry for section in _SECTIONS.values() for verb, entry in section.items()}


class _Verbs(click.Group):
    """A group whose commands are imported when they are used, and whose overview imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = getattr(import_module(f"manager.cli.{_VERBS[cmd_name][0]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _VERBS))
        for title, verbs in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, (_, line) in verbs.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="lm-tools-bridge %(version)s")
def cli() -> None:
    """One local MCP endpoint for every coding agent.

    Each request is routed to the tools of the workspace it belongs to.
    """
