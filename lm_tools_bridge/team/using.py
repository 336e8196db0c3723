"""The verbs team use and team unuse: makes an offer of the team a server of the user's own workspaces."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from lm_tools_bridge.team.files import config_dir, edited, joined
from lm_tools_bridge.team.membership import Membership, Use
from lm_tools_bridge.team.names import is_token
from lm_tools_bridge.terminal.command_line import Failure, confirm, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.toml_text import parse_toml
from manager.cli.output.manager_access import ask, current_folder, mcp_address
from manager.features import has_feature

if TYPE_CHECKING:
    from lm_tools_bridge.client_setup.editing.file_access import FileState

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_]{1,40}")
_ARRAY: Final = ("mcp", "remote_servers")
_KINDS: Final = ("remote_servers", "stdio_servers")


@click.command()
@click.argument("offer")
@click.option("--as", "namespace", help="The prefix of its tools; default: the name of the offer.")
@click.option("--host", "hosts", multiple=True, help="A host that may get calls; default: all present ones.")
@click.option("--any-host", is_flag=True, help="Also hosts that offer it later may get calls.")
@click.option(
    "--cwd",
    "--project",
    "project",
    type=click.Path(path_type=Path),
    help="Only in the project of this folder; default: in all.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def use(offer: str, namespace: str | None, hosts: tuple[str, ...], project: Path | None, *, any_host: bool,
        yes: bool, as_json: bool) -> None:  # fmt: skip
    """Use an offer of the team: its tools become those of a server in your workspaces.

    Calls go only to hosts that you accept here: another member can offer something under the same name.
    """
    joined()
    team_offer = _offered(offer)
    entry = _entry_of(offer)
    prefix = _prefix(namespace, entry, offer)
    present = [str(row.get("host")) for row in team_offer.get("hosts", ()) if not row.get("own")]
    accepted = None if any_host else tuple(hosts or present)
    url = f"{mcp_address().removesuffix('/mcp')}/team/{offer}"
    folders = entry.get("projects") if project is None else [current_folder(project)]
    is_there = bool(entry)
    if is_there:
        _check_same(entry, {"namespace": prefix, "url": url, "projects": folders})
    elif any(row.get("namespace") == prefix for row in _entries()):
        step = "choose another one: --as PREFIX"
        raise Failure(f"another server has the prefix {prefix}", step, reason="invalid_name")
    if not as_json:
        _show(team_offer, accepted)
    if not yes and not confirm(f"Use {offer}?", "this sends calls of your agents to these hosts"):
        raise Failure("nothing was changed", "answer y, or give --yes", reason="declined")
    if not is_there:
        _write_entry(prefix, url, folders)
    edited(lambda now: _with(now, Use(offer, prefix, accepted)))
    if as_json:
        shown_hosts = None if accepted is None else list(accepted)
        print_json(
            {"offer": offer, "namespace": prefix, "hosts": shown_hosts, "url": url, "written": not is_there}
        )
    else:
        say(f"{offer} is used as {prefix}; its tools: lmtb tools")


@click.command()
@click.argument("offer")
@json_option
def unuse(offer: str, as_json: bool) -> None:
    """Stop using an offer. Its entry in workspace.toml stays, and is refused; delete it there."""
    if joined().use(offer) is None:
        raise Failure(f"{printable(offer)} is not used", "see: lmtb team status", reason="unknown_offer")
    edited(lambda now: msgspec.structs.replace(now, uses=tuple(u for u in now.uses if u.offer != offer)))
    if as_json:
        print_json({"unused": offer})
    else:
        say(f"{offer} is no longer used; delete its entry in {_file()}")


def _prefix(namespace: str | None, entry: dict[str, Any], offer: str) -> str:
    """The prefix of the tools: as given, else of the existing entry, else from the name of the offer."""
    prefix = namespace or str(entry.get("namespace", "")) or re.sub(r"[^A-Za-z0-9_]", "_", offer)[:40]
    if not _NAMESPACE.fullmatch(prefix):
        step = "use letters, digits and _, at most 40"
        raise Failure(f"{printable(prefix)!r} cannot be a prefix", step, reason="invalid_name")
    return prefix


def _file() -> Path:
    return config_dir() / "workspace.toml"


def _offered(offer: str) -> dict[str, Any]:
    rows = ask(f"/team/offers?pattern={offer.lower()}").get("offers", ()) if is_token(offer) else ()
    matches = [entry for entry in rows if isinstance(entry, dict) and entry.get("name") == offer]
    if not matches or all(entry.get("own") for entry in matches[0].get("hosts", ())):
        step = "see: lmtb team offers"
        raise Failure(f"the team does not offer {printable(offer)}", step, reason="unknown_offer")
    return matches[0]


def _show(team_offer: dict[str, Any], accepted: tuple[str, ...] | None) -> None:
    name, kind, tools = (team_offer.get(key) for key in ("name", "kind", "tools"))
    say(f"{name}: {kind} with {tools} tools. {team_offer.get('title')}".rstrip())
    for host in team_offer.get("hosts", ()):
        if not host.get("own") and (accepted is None or host.get("host") in accepted):
            repository = host.get("repository") or "no repository"
            say(f"  host {host.get('host')}, {host.get('policy')}, {repository}")
    if not team_offer.get("uniform"):
        say(Note("These hosts do not offer the same tools. Choose with --host."))
    if accepted is None:
        say(Note("Every member who may offer something can get your calls by using this name."))


def _check_same(entry: dict[str, Any], new_entry: dict[str, Any]) -> None:
    """Refuse if the user's entry differs from what was asked for, since it is not changed here."""
    other = [key for key, value in new_entry.items() if entry.get(key) != value]
    if other:
        step = f"change {' and '.join(other)} of its entry in {_file()}, or delete the entry and try again"
        name = printable(str(entry.get("namespace")))
        raise Failure(f"it is used already, otherwise: as {name}", step, reason="already_used")


def _entry_of(offer: str) -> dict[str, Any]:
    """The server of workspace.toml that uses an offer; {} if there is none."""
    for entry in _entries():
        with contextlib.suppress(ValueError):
            parts = urlsplit(str(entry.get("url")))
            if (parts.hostname, parts.path) == ("127.0.0.1", f"/team/{offer}"):
                return entry
    return {}


def _entries() -> list[dict[str, Any]]:
    """The servers of workspace.toml; a damaged file is reported when it is changed."""
    try:
        document = parse_toml(_text())
    except (ValueError, RecursionError):
        return []
    mcp = document.get("mcp")
    arrays = [mcp.get(key) for key in _KINDS] if isinstance(mcp, Mapping) else []
    return [entry for many in arrays if isinstance(many, list) for entry in many if isinstance(entry, dict)]


def _text() -> str:
    if has_feature("client_setup"):
        return _content(_state())
    file = _file()
    return file.read_bytes().decode("utf-8", "replace") if file.is_file() else ""


def _state() -> FileState:
    from lm_tools_bridge.client_setup.editing import file_access

    state = file_access.read(_file())
    if isinstance(state, file_access.FileState):
        return state
    raise Failure(state.message, state.next_step, reason="unusable")


def _content(state: FileState) -> str:
    return (state.content or b"").decode("utf-8", "replace")


def _write_entry(prefix: str, url: str, folders: list[str] | None) -> None:
    """Add the server to the user's workspace.toml, by what changes the files of clients."""
    by_hand = f'add it yourself: [[mcp.remote_servers]] namespace = "{prefix}" url = "{url}"'
    if not has_feature("client_setup"):
        raise Failure(f"{_file()} is not changed by this program", by_hand, reason="unusable")
    from lm_tools_bridge.client_setup.change import Change
    from lm_tools_bridge.client_setup.editing import file_access, toml_edit

    state = _state()
    text = _content(state)
    table: dict[str, Any] = {"namespace": prefix, "url": url}
    if folders is not None:
        table["projects"] = folders
    changed = toml_edit.with_appended(text, [(_ARRAY, table, ["# of the team: lmtb team unuse"])])
    if not isinstance(changed, str):
        raise Failure(f"{_file()} cannot be changed", by_hand, reason="unusable")
    replaced = file_access.replace(state, Change(state.content, changed.encode()))
    if not isinstance(replaced, list):
        raise Failure(replaced.message, replaced.next_step, reason=replaced.reason)


def _with(now: Membership, used: Use) -> Membership:
    others = tuple(use for use in now.uses if use.offer != used.offer)
    return msgspec.structs.replace(now, uses=(*others, used))
