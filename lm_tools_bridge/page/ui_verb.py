"""The verb ui: opens the page in a browser, as one that may act, and lists and ends such browsers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table
from lm_tools_bridge.text.printable import printable
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control

_COLUMNS: Final = (
    Column("SESSION", Kind.NUMBER),
    Column("OPENED", Kind.AGO),
    Column("LAST ACTION", Kind.AGO),
    Column("BROWSER"),
)
_ALL: Final = -1  # no session has this number


@click.command(epilog=examples("lmtb ui"))
@click.option("--print", "only_print", is_flag=True, help="Only print the address, for a browser elsewhere.")
@click.option("--list", "list_all", is_flag=True, help="List the browsers that may act.")
@click.option(
    "--revoke",
    type=click.IntRange(min=_ALL),
    is_flag=False,
    flag_value=_ALL,
    metavar="[SESSION]",
    help="End the session of one browser, such as --revoke=2, or of all.",
)
@json_option
def ui(*, only_print: bool, list_all: bool, revoke: int | None, as_json: bool) -> None:
    """Open the page of the manager in a browser.

    Anybody of your user can read the page. Its buttons work in a browser that this verb opened: the address
    holds a ticket, which is valid once and for a minute.
    """
    if sum((only_print, list_all, revoke is not None)) > 1:
        raise click.UsageError("--print, --list and --revoke exclude each other")
    if revoke is not None:
        _revoke(None if revoke == _ALL else revoke, as_json=as_json)
    elif list_all:
        _list(as_json=as_json)
    else:
        _open(as_json=as_json, only_print=only_print or as_json)


def _open(*, as_json: bool, only_print: bool) -> None:
    answer = _post("/page/ticket")
    url = str(answer.get("url"))
    if as_json:
        print_json({"url": url})
    elif only_print or not _has_display() or not _opens(url):
        say(url)
    else:
        say(f"opened {answer.get('address')} in your browser")


def _list(*, as_json: bool) -> None:
    with explained():
        sessions = Control(user_paths().control_socket).get("/page/sessions").get("sessions")
    rows = (
        [session for session in sessions if isinstance(session, dict)] if isinstance(sessions, list) else []
    )
    if as_json:
        print_json({"sessions": rows})
    elif rows:
        say(
            Table(_COLUMNS, [_cells(session) for session in rows]),
            "",
            "End one with: lmtb ui --revoke=SESSION",
        )
    else:
        say("no browser may act; open one with: lmtb ui")


def _cells(session: Mapping[str, Any]) -> tuple[object, ...]:
    ages = (session.get("openedAgeSec"), session.get("actedAgeSec"))
    return (session.get("number"), *ages, printable(str(session.get("browser"))))


def _revoke(session: int | None, *, as_json: bool) -> None:
    count = _post("/page/revoke", {} if session is None else {"number": session}).get("revoked")
    if session is not None and not count:
        raise Failure(f"no browser has the session {session}", "list them with: lmtb ui --list")
    if as_json:
        print_json({"revoked": count})
    else:
        say("no browser could act" if count == 0 else f"ended {count} session{'s' if count != 1 else ''}")


def _post(target: str, message: Mapping[str, Any] | None = None) -> dict[str, Any]:
    with explained():
        return Control(user_paths().control_socket).post(target, message or {})


def _has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _opens(url: str) -> bool:
    import webbrowser  # 20 ms, for this verb alone

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError) as error:
        raise Failure(
            f"no browser could be opened: {error}", "open the address of: lmtb ui --print"
        ) from error
