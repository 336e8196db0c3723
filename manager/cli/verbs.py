"""Lists the verbs of `lmtb` with their help lines, and imports the module of a verb when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from host.printable import printable
from manager import __version__

_SECTIONS: Final = {
    "The manager": {
        "up": ("up", "Start the manager in the background, unless it runs."),
        "serve": ("serve", "Run the manager in the foreground."),
        "stop": ("stop", "Stop the manager and wait until it is gone."),
        "service": ("service.verb", "Start the manager at login: install, uninstall, status."),
        "status": ("show", "Show the state of the manager and its workspaces."),
        "workspaces": ("show", "List workspaces and their servers."),
        "clients": ("clients", "List connected clients, and how the project of each was found."),
        "log": ("show", "Show the manager's last log lines."),
    },
    "The workspace of the current folder": {
        "trust": ("trust", "Review what it brings along, and allow it to run."),
        "untrust": ("trust", "Revoke its trust."),
        "adopt": ("adopt", "Move servers of .mcp.json and the like to its workspace.toml."),
        "tools": ("tools", "List, enable, disable and restrict its tools."),
        "servers": ("servers", "List, restart and sign in to the sources of its tools."),
        "call": ("call", "Call one of its tools."),
        "logs": ("logs", "Show the log of its server and of the programs behind it."),
    },
    "Everywhere": {
        "connect": ("connect", "Run as a stdio MCP server, for clients without HTTP support."),
        "client": ("client.verb", "Connect coding agents: add this server to their files."),
        "secrets": ("secrets", "Store tokens that servers and tools need."),
        "doctor": ("doctor.verb", "Check the installation, and say what to do."),
        "uninstall": ("uninstall.verb", "Remove everything that this program made."),
        "demo": ("demo.tour", "Demonstrate every feature on sample workspaces, then clean up."),
    },
}
"""Verb: (module in this package, which has a command of the verb's name; line for the overview)."""
_VERBS: Final = {verb: entry for section in _SECTIONS.values() for verb, entry in section.items()}
_DETAILS: Final = {"sessions": "show", "whoami": "whoami"}
"""Verbs that the overview omits -> their modules: they show the details behind `lmtb clients`."""


class _Verbs(click.Group):
    """A group whose commands are imported when they are used, and whose overview imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _VERBS[cmd_name][0] if cmd_name in _VERBS else _DETAILS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"manager.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        is_known = verb in _VERBS or verb in _DETAILS
        if not is_known and not verb.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415 - only who mistypes pays for it

            near = get_close_matches(verb.lower()[:128], _VERBS, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"there is no verb {printable(verb)!r}{hint}")
        return super().resolve_command(ctx, args)

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
