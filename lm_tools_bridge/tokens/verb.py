"""The verb token: makes, lists and revokes tokens, by which programs elsewhere use this manager."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec

from lm_tools_bridge.terminal.command_line import (
    Failure,
    Length,
    SubVerbs,
    examples,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.tokens.token import (
    MOST_TOKENS,
    SCOPES,
    Token,
    TokenFileError,
    change_tokens,
    digest_of,
    new_token,
    read_tokens,
)
from manager.cli.output.manager_access import user_paths
from manager.client import Control, ControlRefusal, ManagerFault, NoManager

_NAME: Final = 60
"""Most characters of a name."""
_COLUMNS: Final = (
    Column("TOKEN", Kind.TEXT),
    Column("SCOPES", Kind.TEXT),
    Column("CREATED", Kind.NAME),
    Column("EXPIRES", Kind.NAME),
)


@click.group(cls=SubVerbs, epilog=examples("lmtb token create container", "lmtb token list"))
def token() -> None:
    """Make tokens for programs whose user the manager cannot see: in containers, behind forwarded ports.

    Programs of your user need none, unless the setting require_token is on.
    """


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(tuple(SCOPES)),
    multiple=True,
    help="What it allows: mcp (call tools; the default), read (page and status), act (buttons). Repeatable.",
)
@click.option("--expires", type=Length(), help="Valid for this time, such as 30d; default: until revoked.")
@json_option
def create(*, name: str, scopes: Sequence[str], expires: float | None, as_json: bool) -> None:
    """Make a token and print it. It is shown only now: the manager keeps its digest."""
    if not name.strip() or len(name) > _NAME or printable(name) != name:
        raise click.UsageError(f"NAME is 1 to {_NAME} visible characters")
    secret, now = new_token(), round(time.time() * 1000)
    end = None if expires is None else now + round(expires * 1000)
    new = Token(name, digest_of(secret), tuple(dict.fromkeys(scopes)) or ("mcp",), now, end)

    def add_token(tokens: tuple[Token, ...]) -> list[Token]:
        if any(entry.name == name for entry in tokens):
            raise Failure(
                f"there is a token {name}", f"revoke it first: lmtb token revoke {name}", reason="exists"
            )
        if len(tokens) >= MOST_TOKENS:
            raise Failure(f"there are {MOST_TOKENS} tokens", "revoke one first", reason="too_many")
        return [*tokens, new]

    with _explained():
        change_tokens(user_paths().tokens_file, add_token)
    _tell_manager()
    if as_json:
        print_json({"token": secret, **_row(new)})
        return
    say(secret)
    say(Note("It is shown only now. Send it as the header: Authorization: Bearer TOKEN"), err=True)


@token.command("list")
@json_option
def list_tokens(*, as_json: bool) -> None:
    """List the tokens, without what is secret of them."""
    with _explained():
        tokens = read_tokens(user_paths().tokens_file)
    if as_json:
        print_json({"tokens": [_row(entry) for entry in tokens]})
    elif tokens:
        say(Table(_COLUMNS, [_cells(entry) for entry in tokens]))
    else:
        say("there are no tokens; make one with: lmtb token create NAME")


@token.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Revoke all tokens.")
@json_option
def revoke(*, name: str | None, everything: bool, as_json: bool) -> None:
    """Revoke a token: its connections and sessions end at once."""
    if everything == (name is not None):
        raise click.UsageError("give a NAME, or --all")
    revoked: list[Token] = []

    def keep_others(tokens: tuple[Token, ...]) -> list[Token]:
        revoked[:] = [entry for entry in tokens if everything or entry.name == name]
        if not revoked and not everything:
            raise Failure(
                f"there is no token {name}", "list them with: lmtb token list", reason="no_such_token"
            )
        return [entry for entry in tokens if entry not in revoked]

    with _explained():
        change_tokens(user_paths().tokens_file, keep_others)
    ends = _tell_manager()
    connections, sessions = (ends.get(member, 0) for member in ("connections", "sessions"))
    if as_json:
        print_json(
            {"revoked": [entry.name for entry in revoked], "connections": connections, "sessions": sessions}
        )
    else:
        count = f"{len(revoked)} token{'s' if len(revoked) != 1 else ''}"
        say(f"revoked {count}; ended connections: {connections}, sessions: {sessions}")


def _tell_manager() -> dict[str, Any]:
    """Let a running manager read the file again; {} if none runs."""
    try:
        return Control(user_paths().control_socket).post("/tokens/reload", {})
    except NoManager:
        return {}
    except (ManagerFault, ControlRefusal) as error:
        raise Failure(
            f"the file is changed, but the running manager does not follow: {error}", "run: lmtb restart"
        ) from error


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except TokenFileError as error:
        raise Failure(str(error), error.next_step, reason="unusable") from error


def _row(entry: Token) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(entry)
    del row["digest"]
    return row


def _cells(entry: Token) -> tuple[object, ...]:
    expires = "never" if entry.expires is None else _clock(entry.expires)
    return printable(entry.name), ", ".join(entry.scopes), _clock(entry.created), expires


def _clock(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))
