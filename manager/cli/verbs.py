"""Lists the verbs of `lmtb` with their help lines, and imports the module of a verb when it is used."""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import CompletionItem

from lm_tools_bridge.terminal.colour import has_colour
from lm_tools_bridge.terminal.command_line import say
from lm_tools_bridge.terminal.deciding_verbs import (
    DecidingGroup,
    ForAnyone,
    if_given,
    never_decides,
    unless_given,
)
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from manager import __version__
from manager.client import Control

_SECTIONS: Final = {
    "The manager": {
        "up": ("manager.cli.lifecycle.up", "Start the manager in the background, unless it runs."),
        "serve": ("manager.cli.lifecycle.serve", "Run the manager in the foreground."),
        "stop": ("manager.cli.lifecycle.stop", "Stop the manager and wait until it is gone."),
        "restart": (
            "manager.cli.lifecycle.restart",
            "Change over to the installed version; sessions are kept.",
        ),
        "service": ("manager.cli.service.verb", "Start the manager at login: install, uninstall, status."),
        "status": ("manager.cli.status.show", "Show the state of the manager and its workspaces."),
        "top": ("lm_tools_bridge.top.verb", "Watch calls, servers and clients live."),
        "ui": (
            "lm_tools_bridge.page.ui_verb",
            "Open the page in a browser: what needs you, projects, calls.",
        ),
        "token": (
            "lm_tools_bridge.tokens.verb",
            "Make tokens for programs in containers or behind forwarded ports.",
        ),
        "approvals": ("lm_tools_bridge.approvals.verb", "Answer the calls that wait for your approval."),
        "workspaces": ("manager.cli.status.show", "List workspaces and their servers."),
        "clients": (
            "manager.cli.status.clients",
            "List connected clients, and how the project of each was found.",
        ),
        "log": ("manager.cli.status.log", "Show the log of the manager, a workspace or a server."),
        "calls": (
            "lm_tools_bridge.recorder.cli.calls",
            "Show what agents did: recorded calls, figures, export.",
        ),
        "record": (
            "lm_tools_bridge.recorder.cli.record",
            "Record arguments and results of calls, too, for a while.",
        ),
        "replay": (
            "lm_tools_bridge.recorder.replay.verb",
            "Send recorded calls again, and compare the results.",
        ),
    },
    "The workspace of the current folder": {
        "trust": ("manager.cli.workspace.trust", "Review what it brings along, and allow it to run."),
        "untrust": ("manager.cli.workspace.trust", "Revoke its trust."),
        "adopt": (
            "lm_tools_bridge.client_setup.cli.adopt",
            "Move servers of .mcp.json and the like to its workspace.toml.",
        ),
        "tools": ("manager.cli.workspace.tools", "List, enable, disable and restrict its tools."),
        "servers": (
            "manager.cli.workspace.servers",
            "List, restart and sign in to the sources of its tools.",
        ),
        "languages": ("manager.cli.workspace.languages", "List its language servers, and what is missing."),
        "call": ("manager.cli.workspace.call", "Call one of its tools."),
        "agent": ("manager.cli.agent", "Talk to a model that uses its tools."),
    },
    "Everywhere": {
        "connect": ("manager.cli.connect", "Run as a stdio MCP server, for clients without HTTP support."),
        "remote": (
            "lm_tools_bridge.remote_hosts.cli.verb",
            "Reach projects on other hosts, over ssh and in containers.",
        ),
        "client": (
            "lm_tools_bridge.client_setup.cli.verb",
            "Connect coding agents: add this server to their files.",
        ),
        "team": ("lm_tools_bridge.team.cli.verb", "Share workspaces and servers with a team."),
        "secrets": ("manager.cli.workspace.secrets", "Store tokens that servers and tools need."),
        "doctor": ("lm_tools_bridge.doctor.verb", "Check the installation, and say what to do."),
        "completion": ("manager.cli.completion.verb", "Complete words of this program in bash, zsh or fish."),
        "uninstall": ("lm_tools_bridge.uninstall.verb", "Remove everything that this program made."),
        "demo": (
            "lm_tools_bridge.demo.tour",
            "Demonstrate every feature on sample workspaces, then clean up.",
        ),
    },
}
"""Verb: (module, which has a command of the verb's name; line for the overview)."""
_VERBS: Final = {verb: entry for section in _SECTIONS.values() for verb, entry in section.items()}
_TELL_VERSIONS: Final = frozenset({"up", "serve", "stop", "restart", "service", "status", "connect"})
"""Verbs that tell by themselves if the manager has another version, or must not."""
_MEANT: Final = {
    **dict.fromkeys(("start", "launch"), "up"),
    **dict.fromkeys(("run", "daemon"), "serve"),
    **dict.fromkeys(("kill", "shutdown", "quit"), "stop"),
    **dict.fromkeys(("upgrade", "update"), "restart, once the new version is installed"),
    **dict.fromkeys(("install", "add", "setup", "configure"), "client add"),
    **dict.fromkeys(("remove", "delete", "rm"), "client remove, or uninstall"),
    **dict.fromkeys(("list", "ls", "mcp"), "tools, servers or clients"),
    **dict.fromkeys(("check", "health", "diagnose", "debug"), "doctor"),
    **dict.fromkeys(("ps", "monitor", "watch"), "top"),
    **dict.fromkeys(("import", "migrate", "move"), "adopt"),
    **dict.fromkeys(("login", "auth"), "servers login"),
    **dict.fromkeys(("enable", "disable", "expose", "allow", "deny"), "a verb of tools: lmtb tools --help"),
    "version": "--version",
}
"""Words of other programs for what a verb of ours does, where the spelling is not near."""
_DETAILS: Final = {"sessions": "manager.cli.status.show", "whoami": "manager.cli.status.whoami"}
"""Verbs that the overview omits -> their modules: they show the details behind `lmtb clients`."""


class _Verbs(DecidingGroup):
    """The verbs, with near names for a mistyped one, and an overview that imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        options = click.Command.shell_complete(self, ctx, incomplete)
        verbs = ((verb, line) for verb, (_, line) in _VERBS.items() if verb.startswith(incomplete))
        return [*(CompletionItem(verb, help=line) for verb, line in verbs), *options]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if verb not in MODULES and not verb.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no verb {printable(verb)!r}{_meant(verb)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _VERBS))
        for title, verbs in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, (_, line) in verbs.items()])


MODULES: Final = {
    verb: (module, verb)
    for verb, module in ({name: entry[0] for name, entry in _VERBS.items()} | _DETAILS).items()
}
"""Every verb, also those that the overview omits -> its module, and the command's name in it."""


FOR_ANYONE: Final[ForAnyone] = {
    **dict.fromkeys(
        (
            "agent",
            "agent acp",
            "agent list",
            "agent serve",
            "call",
            "calls",
            "calls export",
            "calls show",
            "calls stats",
            "client list",
            "client show",
            "clients",
            "connect",
            "doctor",
            "doctor env",
            "languages",
            "log",
            "record status",
            "remote list",
            "remote serve",
            "remote status",
            "replay",
            "secrets list",
            "serve",
            "servers",
            "servers restart",
            "service status",
            "sessions",
            "status",
            "team offers",
            "team status",
            "token list",
            "tools",
            "tools why",
            "top",
            "up",
            "whoami",
            "workspaces",
        ),
        never_decides,
    ),
    **dict.fromkeys(
        ("adopt", "client add", "client install", "client remove", "client update"), if_given("dry_run")
    ),
    "agent config": lambda given: given["as_json"] and not given["imported"],
    "completion": unless_given("install"),
    "trust": lambda given: given["list_all"] or given["diff"] or (given["as_json"] and not given["yes"]),
    "ui": if_given("list_all"),
}
"""The verbs that programs which we started may run, too; all others decide for the user."""


@click.group(
    cls=_Verbs,
    modules=MODULES,
    for_anyone=FOR_ANYONE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
@click.version_option(__version__, message="lm-tools-bridge %(version)s")
def cli(ctx: click.Context) -> None:
    """One local MCP endpoint for every coding agent.

    Each request is routed to the tools of the workspace it belongs to.
    """
    ctx.color = has_colour(sys.stdout)
    Control.answered_by = None
    if ctx.invoked_subcommand not in _TELL_VERSIONS:
        ctx.call_on_close(_tell_other_version)


def _meant(verb: str) -> str:
    """The end of the message about an unknown verb."""
    other = _MEANT.get(verb.lower())
    return f"; did you mean {other}?" if other else did_you_mean(verb, _VERBS, count=3)


def _tell_other_version() -> None:
    running = Control.answered_by
    if running not in {None, __version__}:
        text = f"the manager runs {running}, this program is {__version__}; to change over: lmtb restart"
        say(f"note: {text}", err=True)
