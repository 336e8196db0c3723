"""Lists the verbs of `lmtb` with their help lines, and imports the module of a verb when it is used.

Features add verbs (`manager/features.py`): those of a feature are loaded when one is used, and all for the
overview.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Final

import click
from click.shell_completion import CompletionItem

from lm_tools_bridge.terminal.command_line import say
from lm_tools_bridge.terminal.deciding_verbs import (
    DecidingGroup,
    Given,
    never_decides,
    unless_given,
)
from lm_tools_bridge.terminal.screen import has_colour
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from manager import __version__
from manager.client import Control
from manager.features import FEATURES, Feature, Verb, verbs_of

_SECTIONS: Final = {
    "The manager": {
        "up": ("manager.cli.up", "Start the manager in the background, unless it runs."),
        "serve": ("manager.cli.serve", "Run the manager in the foreground."),
        "stop": ("manager.cli.stop", "Stop the manager and wait until it is gone."),
        "restart": ("manager.cli.restart", "Change over to the installed version; sessions are kept."),
        "service": ("manager.cli.service.verb", "Start the manager at login: install, uninstall, status."),
        "status": ("manager.cli.status", "Show the state of the manager and its workspaces."),
        "workspaces": ("manager.cli.status", "List workspaces and their servers."),
        "clients": ("manager.cli.clients", "List connected clients, and how the project of each was found."),
        "log": ("manager.cli.log", "Show the log of the manager, a workspace or a server."),
    },
    "The workspace of the current folder": {
        "trust": ("manager.cli.trust", "Review what it brings along, and allow it to run."),
        "untrust": ("manager.cli.trust", "Revoke its trust."),
        "tools": ("manager.cli.tools", "List, enable, disable and restrict its tools."),
        "servers": ("manager.cli.servers", "List, restart and sign in to the sources of its tools."),
        "call": ("manager.cli.call", "Call one of its tools."),
    },
    "Everywhere": {
        "connect": ("manager.cli.connect", "Run as a stdio MCP server, for clients without HTTP support."),
        "secrets": ("manager.cli.servers", "Store tokens that servers and tools need."),
        "completion": ("manager.cli.completion", "Complete words of this program in bash, zsh or fish."),
    },
}
"""Verb: (module, which has a command of the verb's name; line for the overview). Features add theirs."""
_TELL_VERSIONS: Final = frozenset({"up", "serve", "stop", "restart", "service", "status", "connect"})
"""Verbs that tell by themselves if the manager has another version, or must not."""
_MEANT: Final = {
    **dict.fromkeys(("start", "launch"), "up"),
    **dict.fromkeys(("run", "daemon"), "serve"),
    **dict.fromkeys(("kill", "shutdown", "quit"), "stop"),
    **dict.fromkeys(("upgrade", "update"), "restart, once the new version is installed"),
    **dict.fromkeys(("list", "ls", "mcp"), "tools, servers or clients"),
    **dict.fromkeys(("login", "auth"), "servers login"),
    **dict.fromkeys(("enable", "disable", "expose", "allow", "deny"), "a verb of tools: lmtb tools --help"),
    "version": "--version",
    "config": "doctor, which names the files with settings",
}
"""Words of other programs for what a verb of ours does, where the spelling is not near."""
_FIRST_STEPS: Final = ("up", "client add --all", "adopt", "trust")
"""What a newcomer does, in this order; some of these verbs belong to features."""
_DETAILS: Final = {"sessions": "manager.cli.status", "whoami": "manager.cli.clients"}
"""Verbs that the overview omits -> their modules: they show the details behind `lmtb clients`."""


_LISTS: Final = frozenset({"clients", "sessions", "workspaces"})
"""Verbs without verbs of their own that list something: `list` after them is right, and changes nothing."""


class _Verbs(DecidingGroup):
    """The verbs, with near names for a mistyped one, and an overview that imports none of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; `help VERB` is `VERB --help`, and `list` is what some verbs do anyway."""
        if args[:1] and args[0] in _LISTS and args[1:2] == ["list"]:
            args = [args[0], *args[2:]]
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(lines_of_verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _FEATURES:
            add_verbs_of(_FEATURES[cmd_name])
        return super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        options = click.Command.shell_complete(self, ctx, incomplete)
        verbs = ((verb, line) for verb, line in lines_of_verbs().items() if verb.startswith(incomplete))
        return [*(CompletionItem(verb, help=line) for verb, line in verbs), *options]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        is_verb = verb in MODULES or verb in _FEATURES
        if not is_verb and not verb.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no verb {printable(verb)!r}{_meant(verb)}")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        steps = [f"lmtb {words}" for words in _FIRST_STEPS if words.split()[0] in lines_of_verbs()]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"Start here: {', '.join(steps)}. Then start an agent in a project.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, lines_of_verbs()))
        for title, lines in overview().items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in lines.items()])


_FEATURES: Final = {verb: feature for feature in FEATURES for verb in feature.verbs}
"""Verbs that features add -> their features."""
MODULES: Final[dict[str, tuple[str, str]]] = {
    verb: (module, verb)
    for section in (*_SECTIONS.values(), {verb: (module, "") for verb, module in _DETAILS.items()})
    for verb, (module, _) in section.items()
}
"""Every verb that was added, also one that the overview omits -> its module, and the command's name in it."""


@cache
def add_verbs_of(feature: Feature) -> tuple[Verb, ...]:
    """Add the verbs of a feature, unless that was done already; returns them."""
    verbs = verbs_of(feature)
    for verb in verbs:
        MODULES[verb.name] = (verb.module, verb.name)
        FOR_ANYONE.update(dict.fromkeys(verb.for_anyone, never_decides) | dict(verb.for_anyone_if))
    return verbs


@cache
def overview() -> dict[str, dict[str, str]]:
    """The lines of all verbs of the overview, by section, in order."""
    lines = {title: {verb: line for verb, (_, line) in verbs.items()} for title, verbs in _SECTIONS.items()}
    left = [verb for feature in FEATURES for verb in add_verbs_of(feature)]
    while left:
        # a verb whose predecessor never comes is the last of its section
        verb = next((verb for verb in left if verb.after in lines[verb.section]), left[0])
        left.remove(verb)
        lines[verb.section] = _inserted(lines[verb.section], verb)
    return lines


def _inserted(lines: dict[str, str], verb: Verb) -> dict[str, str]:
    names = list(lines)
    place = names.index(verb.after) + 1 if verb.after in lines else len(names)
    names.insert(place, verb.name)
    return {name: lines.get(name, verb.line) for name in names}


def lines_of_verbs() -> dict[str, str]:
    """The lines of all verbs of the overview, in order."""
    return {verb: line for lines in overview().values() for verb, line in lines.items()}


def synonyms() -> dict[str, str]:
    """Words of other programs -> what to write here; what several features mean by one is joined."""
    meant = dict(_MEANT)
    for feature in FEATURES:
        for verb in add_verbs_of(feature):
            for word, words in verb.synonyms.items():
                meant[word] = f"{meant[word]}, or {words}" if word in meant else words
    return meant


FOR_ANYONE: Final[dict[str, Callable[[Given], bool]]] = {
    **dict.fromkeys(
        (
            "call",
            "clients",
            "connect",
            "log",
            "secrets list",
            "serve",
            "servers",
            "servers restart",
            "service status",
            "sessions",
            "status",
            "tools",
            "tools why",
            "up",
            "whoami",
            "workspaces",
        ),
        never_decides,
    ),
    "completion": unless_given("install"),
    "trust": lambda given: given["list_all"] or given["diff"] or (given["as_json"] and not given["yes"]),
}
"""The verbs that programs which we started may run, too; all others decide for the user.

Features add theirs."""


@click.group(
    cls=_Verbs,
    modules=MODULES,
    for_anyone=FOR_ANYONE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
@click.version_option(__version__, "-V", "--version", message="lm-tools-bridge %(version)s")
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
    other = synonyms().get(verb.lower())
    return f"; did you mean {other}?" if other else did_you_mean(verb, lines_of_verbs(), count=3)


def _tell_other_version() -> None:
    running = Control.answered_by
    if running not in {None, __version__}:
        text = f"the manager runs {running}, this program is {__version__}; to change over: lmtb restart"
        say(f"note: {text}", err=True)
