"""The verb secrets: stores values by name, for configurations and tools. Values are never shown.

A value comes from a hidden prompt or from standard input, never from an argument, which other users can read.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

from lm_tools_bridge.terminal.command_line import Failure, is_json, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note, Tone
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from workspace_server.command.arguments import UserFolders
from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError
from workspace_server.secrets.store import open_store

# Keys and certificates take some KiB. It stops a file that was piped by mistake before it fills the memory.
_MAX_INPUT: Final = 1024 * 1024
Answer = TypeVar("Answer")


@click.group()
def secrets() -> None:
    """Store tokens that servers and tools need. No value is ever shown."""


@secrets.command("set")
@click.argument("key")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the value from standard input.")
@json_option
@click.pass_obj
def set_secret(folders: UserFolders, *, key: str, from_stdin: bool, as_json: bool) -> None:
    """Store a value under KEY. Prompts for the value."""
    value = _from_stdin() if from_stdin else _from_prompt(key)
    if not value:
        raise Failure(
            "an empty value was not stored", f"to remove it: lmtb secrets delete {key}", reason="empty"
        )
    _run(open_store(folders.state_dir, os.environ).set(key, value))
    if as_json:
        print_json({"key": key})
    say(Note(f"Stored {key}.", Tone.GOOD))


@secrets.command("list")
@json_option
@click.pass_obj
def list_secrets(folders: UserFolders, *, as_json: bool) -> None:
    """Show the names of all stored secrets."""
    keys = _run(open_store(folders.state_dir, os.environ).list())
    if as_json:
        print_json({"keys": keys})
    elif not keys:
        say("No secret is stored.")
    for key in () if as_json else keys:
        say(key)


@secrets.command("delete")
@click.argument("key")
@json_option
@click.pass_obj
def delete_secret(folders: UserFolders, *, key: str, as_json: bool) -> None:
    """Remove the value stored under KEY."""
    store = open_store(folders.state_dir, os.environ)
    if not _run(store.delete(key)):
        text = f"there is no secret {key}{did_you_mean(key, _run(store.list()))}"
        raise Failure(text, "lmtb secrets list shows their names", reason="unknown_secret")
    if as_json:
        print_json({"key": key})
    say(Note(f"Removed {key}.", Tone.GOOD))


def _from_prompt(key: str) -> str:
    if is_json() or not sys.stdin.isatty():
        step = f"run it in a terminal, or pipe the value: … | lmtb secrets set {key} --stdin"
        raise Failure("nobody can be asked for the value here", step, reason="not_asked")
    value: str = click.prompt(
        f"Value of {printable(key)} (not shown)", hide_input=True, default="", show_default=False
    )
    return value


def _from_stdin() -> str:
    """The whole standard input, without the line end that `echo` adds."""
    raw = sys.stdin.buffer.read(_MAX_INPUT + 1)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if len(raw) > _MAX_INPUT or (raw and not text):
        raise Failure("the value is not text, or too long", "store a shorter text", reason="bad_value")
    return text.removesuffix("\n").removesuffix("\r")


def _run(work: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        return asyncio.run(work)
    except InvalidSecretError as error:
        raise Failure(str(error), "choose another name or value", reason="invalid") from error
    except SecretStoreError as error:
        text, _, step = str(error).partition(". Next step: ")
        step = step or "nothing was changed; try again once that is solved"
        raise Failure(text, step, reason="unavailable") from error
