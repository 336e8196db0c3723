"""The verb team: joins and leaves a team, and shows its state."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.team import membership, views
from lm_tools_bridge.team.files import config_dir, explained_file, reloaded, settled, target_of
from lm_tools_bridge.team.membership import Membership
from lm_tools_bridge.team.names import is_token
from lm_tools_bridge.team.offering import offer, withdraw
from lm_tools_bridge.team.using import unuse, use
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note
from manager.cli.output.manager_access import ask

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")


@click.group(cls=SubVerbs, epilog=examples("lmtb team status"))
def team() -> None:
    """Share workspaces and MCP servers with a team, over a NATS server that the team runs.

    Nothing is offered and nothing of others is used until you say so.
    """


@team.command()
@click.argument("target", metavar="URL|CONTEXT")
@click.option("--creds", type=click.Path(path_type=Path), help="The file of your credentials (JWT and nkey).")
@click.option("--nkey", type=click.Path(path_type=Path), help="The file of your nkey seed.")
@click.option("--ca", type=click.Path(path_type=Path), help="Certificates to trust, for TLS.")
@click.option("--cert", type=click.Path(path_type=Path), help="Your own certificate, for TLS.")
@click.option("--key", type=click.Path(path_type=Path), help="The key of --cert.")
@click.option("--name", help="The name of this host in the team; default: the machine's.")
@click.option("--zone", default="", help="Hosts of the same zone are preferred.")
@click.option("--capacity", type=click.IntRange(1, 1000), default=32, help="Calls of others at once (32).")
@json_option
def join(
    target: str, name: str | None, zone: str, capacity: int, as_json: bool, **files: Path | None
) -> None:
    """Join the team of a NATS server: its URLs, separated by commas, or the name of a context of `nats`.

    Credentials stay in their files: only the paths are kept.
    """
    host = name or _OTHER.sub("-", platform.node().partition(".")[0]).strip("-") or "host"
    if not is_token(host):
        step = "use letters, digits, - and _, at most 64"
        raise Failure(f"{host!r} cannot name a host", step, reason="invalid_name")
    if zone and not is_token(zone):
        raise Failure(f"{zone!r} cannot name a zone", "use letters, digits, - and _", reason="invalid_name")
    settings = target_of(target, {option: path for option, path in files.items() if path is not None})
    with explained_file():
        joined = Membership(**settings, name=host, zone=zone, capacity=capacity)
        if not membership.create(config_dir(), joined):
            step = "leave it first: lmtb team leave"
            raise Failure("a team was joined already", step, reason="already_joined")
    _print(settled(reloaded()), as_json=as_json)


@team.command()
@json_option
def leave(as_json: bool) -> None:
    """Leave the team: nothing is offered or used any more. Your credentials are not touched."""
    with explained_file():
        left = membership.remove(config_dir())
    reloaded()
    if as_json:
        print_json({"left": left})
    else:
        say("left the team" if left else "no team was joined")


@team.command()
@json_option
def status(as_json: bool) -> None:
    """Show the connection to the team, what you offer and what you use."""
    _print(ask("/team"), as_json=as_json)


@team.command()
@click.argument("pattern", default="")
@json_option
def offers(pattern: str, as_json: bool) -> None:
    """List what the team offers; PATTERN is a part of a name, a title or a repository."""
    from urllib.parse import quote  # for this verb alone

    answer = ask(f"/team/offers?pattern={quote(pattern)}")
    if as_json:
        print_json({name: answer.get(name) for name in ("offers", "omitted", "staleSeconds")})
    else:
        say(*views.offers(answer))


def _print(answer: dict[str, Any] | None, *, as_json: bool) -> None:
    if answer is None:
        with explained_file():
            held = membership.load(config_dir())
        answer = {"joined": held is not None, "connected": False}
        say(Note("no manager is running; the team is joined when it starts: lmtb up"))
    if as_json:
        print_json({name: value for name, value in answer.items() if name != "ok"})
    else:
        say(*views.state(answer))


for _command in (offer, withdraw, use, unuse):
    team.add_command(_command)
