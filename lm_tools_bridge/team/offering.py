"""The verbs team offer and team withdraw: shows what members will be able to call, and offers it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lm_tools_bridge.team.files import edited, joined, posted
from lm_tools_bridge.team.membership import Membership, OwnOffer
from lm_tools_bridge.team.names import is_token
from lm_tools_bridge.team.registry.entry import MAX_OFFERS
from lm_tools_bridge.terminal.command_line import Failure, confirm, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note
from lm_tools_bridge.text.printable import printable
from manager.cli.output.manager_access import current_folder, unmatched

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN: Final = 40  # tools: about one screen
_MOST_PATTERNS: Final = 50
"""Each pattern is compared with the name of each tool for each list that a member asks for."""
_LONGEST: Final = 200  # characters; names of tools have 64 at most


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--server", help="Offer only this MCP server of the workspace (its namespace).")
@click.option("--name", help="The name of the offer; default: that of the folder or the server.")
@click.option("--title", default="", help="A line about it for people.")
@click.option(
    "--policy",
    type=click.Choice(["read-only", "all"]),
    default="read-only",
    help="Which tools can be called: those that say they change nothing (default), or all.",
)
@click.option("--tools", multiple=True, metavar="PATTERN", help="Only tools of such names, as 'lm_read*'.")
@click.option("--without", multiple=True, metavar="PATTERN", help="Not the tools of such names.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def offer(folder: Path | None, server: str | None, name: str | None, title: str, *, policy: str,
          tools: tuple[str, ...], without: tuple[str, ...], yes: bool, as_json: bool) -> None:  # fmt: skip
    """Offer a workspace, or one of its MCP servers, to the team. FOLDER defaults to the current one.

    Members see and call only what passes all of it: --policy, --tools and --without.
    """
    held = joined()
    root = _root(current_folder(folder))
    offer_name = name or _OTHER.sub("-", server or Path(root).name).strip("-")
    if not is_token(offer_name):
        step = "give it a name: --name NAME"
        raise Failure(f"{printable(offer_name)!r} cannot name an offer", step, reason="invalid_name")
    new_offer = OwnOffer(
        offer_name,
        root,
        "server" if server else "workspace",
        "all" if policy == "all" else "read-only",
        f"{server}__" if server else "",
        title[:200],
        include=_patterns(tools),
        exclude=_patterns(without),
    )
    _check_number(held, new_offer)
    offered, digest = _preview(new_offer)
    if not as_json:
        _show(new_offer, offered)
    changes = f"this lets members of the team call {len(offered)} tools of {root}"
    if not yes and not confirm(f"Offer it as {offer_name}?", changes):
        raise Failure("nothing was offered", "answer y, or give --yes", reason="declined")
    new_offer = msgspec.structs.replace(new_offer, digest=digest, tools=len(offered))
    edited(lambda now: _with(now, new_offer))
    if as_json:
        print_json({"offer": offer_name, "tools": offered, "policy": policy, "root": root})
    else:
        undo = f"take it back with: lmtb team withdraw {offer_name}"
        say(f"{offer_name} is offered to the team as {held.name}; {undo}")


@click.command()
@click.argument("name")
@json_option
def withdraw(name: str, as_json: bool) -> None:
    """Take an offer back; calls that run may end."""
    if joined().offer(name) is None:
        raise Failure(f"{printable(name)} is not offered", "see: lmtb team status", reason="unknown_offer")
    edited(lambda now: msgspec.structs.replace(now, offers=tuple(o for o in now.offers if o.name != name)))
    if as_json:
        print_json({"withdrawn": name})
    else:
        say(f"{name} is no longer offered")


def _root(folder: str) -> str:
    try:
        match = posted("/resolve", {"cwd": folder}).get("match")
    except Failure as failure:
        if failure.reason == "not_found":
            raise unmatched(folder) from failure
        raise
    folders = match.get("workspaceFolders") if isinstance(match, dict) else None
    if not isinstance(folders, list) or not folders:
        raise unmatched(folder)
    return str(folders[0])


def _preview(new_offer: OwnOffer) -> tuple[list[str], str]:
    """What members would be able to call."""
    answer: dict[str, Any] = posted("/team/preview", msgspec.to_builtins(new_offer))
    tools = [str(tool) for tool in answer.get("tools", ())]
    if not tools:
        what = f"the server {new_offer.prefix.removesuffix('__')}" if new_offer.prefix else new_offer.root
        step = "see: lmtb tools; with --policy all also tools that change something are offered"
        narrowed = " that --tools and --without let through" if _is_narrowed(new_offer) else ""
        under = f"under {new_offer.policy}{narrowed}"
        raise Failure(f"{what} has no tool to offer {under}", step, reason="nothing_to_offer")
    return tools, str(answer.get("digest", ""))


def _show(new_offer: OwnOffer, tools: list[str]) -> None:
    say(f"Members of the team will be able to call, in {new_offer.root}:")
    say(*(f"  {tool}" for tool in tools[:_SHOWN]))
    if len(tools) > _SHOWN:
        say(f"  … and {len(tools) - _SHOWN} more")
    if new_offer.policy == "all":
        say(Note("Tools that change files or run programs are among them."))


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns as they are kept; several can be given at once, with commas."""
    patterns = tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
    if len(patterns) > _MOST_PATTERNS or any(len(pattern) > _LONGEST for pattern in patterns):
        step = f"use at most {_MOST_PATTERNS}, of at most {_LONGEST} characters each; * stands for anything"
        raise Failure("these are too many patterns", step, reason="invalid_pattern")
    return patterns


def _is_narrowed(new_offer: OwnOffer) -> bool:
    return bool(new_offer.include or new_offer.exclude)


def _check_number(now: Membership, new_offer: OwnOffer) -> None:
    if now.offer(new_offer.name) is None and len(now.offers) >= MAX_OFFERS:
        step = "take one back: lmtb team withdraw NAME"
        raise Failure(f"a host has at most {MAX_OFFERS} offers", step, reason="too_many_offers")


def _with(now: Membership, new_offer: OwnOffer) -> Membership:
    _check_number(now, new_offer)  # again: another command may have run
    others = tuple(own_offer for own_offer in now.offers if own_offer.name != new_offer.name)
    return msgspec.structs.replace(now, offers=(*others, new_offer))
