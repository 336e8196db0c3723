"""The verb agent: runs the terminal agent, a program of its own, in place of this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from lm_tools_bridge.agent.replacing import become, command_line
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, is_json, json_option
from manager.cli.output.manager_access import user_paths

_PROVIDERS: Final = ("ollama", "openai", "azure", "anthropic", "gemini", "mistral", "openrouter", "manual")


def _providers(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [name for name in _PROVIDERS if name.startswith(begun)]


@click.group(
    cls=SubVerbs,
    invoke_without_command=True,
    epilog=examples("lmtb agent", 'lmtb agent -p "What does this project do?"'),
)
@click.option("--provider", metavar="P", shell_complete=_providers, help="Instead of default_provider.")
@click.option("--model", metavar="M", help="Instead of the provider's configured model.")
@click.option("--continue", "resume", is_flag=True, help="Go on with the last session of this folder.")
@click.option("-p", "--prompt", metavar="TEXT", help="Run one turn with this text, and end; - reads it.")
@click.option("--allow", metavar="NAME", multiple=True, help="With -p: a tool that runs without a question.")
@json_option
@click.pass_context
def agent(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Talk to a local or remote model that uses this project's tools.

    With -p, the reply is printed and everything else goes to standard error. Exit code 0: completed, 3: too
    many rounds or repeats, 4: the provider failed, 130: cancelled. --json prints one event a line.
    """
    if options["prompt"] is None and options["allow"]:
        raise click.UsageError("--allow needs -p TEXT: in a session you are asked", ctx)
    ctx.obj = options
    if ctx.invoked_subcommand is None:
        if as_json and options["prompt"] is None:
            raise click.UsageError("--json needs -p TEXT", ctx)
        run("session", options)


@agent.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default a free one.")
@click.option("--origin", "origins", metavar="ORIGIN", multiple=True, help="A web page that may connect.")
@click.option(
    "--allow", "tools", metavar="NAME", multiple=True, help="A tool to offer; default: those that only read."
)
@click.pass_obj
@json_option
def serve(
    options: dict[str, Any], /, port: int, origins: tuple[str, ...], tools: tuple[str, ...], **_: bool
) -> None:
    """Offer the tools of this folder to programs and web pages over WebSockets.

    Prints the address and the token that a client needs.
    """
    words = [*(f"--origin={one}" for one in origins), *(f"--allow={name}" for name in tools)]
    run("serve", options, f"--port={port}", *words)


@agent.command()
@click.pass_obj
def acp(options: dict[str, Any]) -> None:
    """Work in an editor that speaks the Agent Client Protocol, such as Zed.

    The editor starts this, and talks to it over standard input and output: one JSON object per line. Ends
    when standard input closes.
    """
    run("acp", options)


@agent.command()
@click.option(
    "--import",
    "imported",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take over the settings, servers and key of an .ollmcpc.json.",
)
@click.pass_obj
@json_option
def config(options: dict[str, Any], /, imported: Path | None, **_: bool) -> None:
    """Choose provider and model step by step; with --json: print the settings."""
    run("config", options, *(() if imported is None else ("--import", str(imported))))


@agent.command(name="list")
@click.pass_obj
@json_option
def list_(options: dict[str, Any], /, **_: bool) -> None:
    """List the tools that the model is offered."""
    run("list", options)


def run(verb: str, options: dict[str, Any], *more: str) -> NoReturn:
    """Replace this process with the agent."""
    try:
        become(command_line(user_paths(), verb, [*more, *_words(options)]))
    except OSError as error:
        raise Failure(f"{sys.executable} cannot be run: {error}", "install the program again") from error


def _words(options: dict[str, Any]) -> list[str]:
    """The options as the agent reads them."""
    given = {name: options[name] for name in ("provider", "model", "prompt") if options[name] is not None}
    words = [f"--{name}={value}" for name, value in given.items()]
    words.extend(f"--allow={name}" for name in options["allow"])
    words.extend(["--continue"] if options["resume"] else [])
    words.extend(["--json"] if is_json() else [])
    return words
