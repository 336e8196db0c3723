"""The verb tools: enables and disables tools of a workspace, and decides which are listed and which ask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast, get_args

import click

from lm_tools_bridge.terminal.command_line import Failure, is_json, json_option, print_json, say
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.config import edit
from workspace_server.config.load import USER_FILE, WORKSPACE_FILE, ConfigurationLoader
from workspace_server.config.model import Approval
from workspace_server.config.policy import BUILT_IN_DISABLED, REQUIRED, Switch
from workspace_server.tool import Visibility
from workspace_server.trust.item import trust_command

_WHICH_ASK = "which tools ask"
_WHICH_ARE_LISTED = "which tools are listed"
_DEFAULT = "default"
_EFFECTS = {
    "native": "listed as usual",
    "ondemand": "not listed, but found with tool_search",
    "always": "always listed, also in discovery mode",
}
_SWITCHES: dict[Switch, tuple[str, str, bool]] = {
    "enable": ("switched on", "enabled", True),
    "disable": ("switched off", "enabled", False),
    "expose": ("exposed: it can be enabled", "exposed", True),
    "unexpose": ("no longer exposed: it cannot be enabled", "exposed", False),
}


@click.group()
def tools() -> None:
    """Which tools a workspace offers, and which of them are listed and ask before they run."""


def _switching_verb(switch: Switch, about: str) -> None:
    """Add a verb that switches a tool of a workspace."""

    @tools.command(switch, help=about)
    @click.argument("name")
    @click.option("--root", type=click.Path(path_type=Path), required=True, help="The workspace's folder.")
    @json_option
    @click.pass_obj
    def change(folders: UserFolders, /, name: str, root: Path, **_: bool) -> None:
        _switch(name, root, folders, switch)


_switching_verb("enable", "Offer the tool NAME.")
_switching_verb("disable", "No longer offer the tool NAME.")
_switching_verb("expose", "Let the tool NAME be enabled.")
_switching_verb("unexpose", "Hide the tool NAME even from the choice of tools.")


@tools.command()
@click.argument("name")
@json_option
@click.pass_obj
def allow(folders: UserFolders, /, name: str, **_: bool) -> None:
    """Let the tool NAME run without asking."""
    _decide(name, folders, "allow")


@tools.command()
@click.argument("name")
@json_option
@click.pass_obj
def ask(folders: UserFolders, /, name: str, **_: bool) -> None:
    """Have the tool NAME ask before every call."""
    _decide(name, folders, "ask")


@tools.command()
@click.argument("name")
@json_option
@click.pass_obj
def deny(folders: UserFolders, /, name: str, **_: bool) -> None:
    """Never let the tool NAME run."""
    _decide(name, folders, "deny")


@tools.command()
@click.argument("name")
@click.argument("word", type=click.Choice([*get_args(Visibility), _DEFAULT]))
@click.option("--root", type=click.Path(path_type=Path), required=True, help="The workspace's folder.")
@click.option("--source", "of_source", is_flag=True, help="NAME is the id of a source.")
@json_option
@click.pass_obj
def visibility(folders: UserFolders, /, name: str, word: str, root: Path, of_source: bool, **_: bool) -> None:
    """Choose the visibility of the tool NAME, or of all tools of a source, in one workspace."""
    choice = cast(Visibility, word) if word != _DEFAULT else None
    file, folder = folders.config_dir / USER_FILE, real_folder(root)
    with explained(file):
        is_changed = edit.set_visibility(file, folder, name, choice, of_source=of_source)
    if is_json():
        key = "source" if of_source else "tool"
        print_json({key: name, "visibility": choice, "root": str(folder), "file": str(file)})
        return
    if choice is None and not is_changed:
        say(f"There is no choice of yours for {name} in {folder}; nothing was changed.")
        return
    who = f"The tools of {name} are" if of_source else f"{name} is"
    effect = "listed as its source says" if choice is None else _EFFECTS[choice]
    say(f"{who} {effect}, for you in {folder}. Written to {file}.")


def _switch(name: str, root: Path, folders: UserFolders, switch: Switch) -> None:
    folder = real_folder(root)
    if name in BUILT_IN_DISABLED:
        text = f"{name} is a tool of an editor's own agent and is never offered"
        raise Failure(text, "use another tool", reason="never_offered")
    if switch == "unexpose" and name in REQUIRED:
        instead = f"disable it instead: lmtb tools disable {name}"
        raise Failure(f"{name} is always exposed", instead, reason="always_exposed")
    configurations = ConfigurationLoader(folder, folders.config_dir, os.environ)
    file = configurations.current().policy_file
    of_project = file == folder / WORKSPACE_FILE
    with explained(file):
        # only a running server knows which tools exist; it removes entries that are not needed
        edit.switch_tool(file, name, switch, defaults={}, of_project=of_project)
    needs_trust = switch in {"enable", "expose"} and of_project
    effect, member, value = _SWITCHES[switch]
    if is_json():
        step = trust_command(folder) if needs_trust else None
        print_json({"tool": name, member: value, "file": str(file), "waitsFor": step})
        return
    say(f"{name} is {effect} in {file}.")
    if needs_trust:
        say(f"That file comes with the workspace, so it waits for: {trust_command(folder)}")


def _decide(name: str, folders: UserFolders, approval: Approval) -> None:
    file = folders.config_dir / USER_FILE
    with explained(file):
        edit.set_approval(file, name, approval)
    if is_json():
        print_json({"tool": name, "approval": approval, "file": str(file)})
        return
    effect = {"allow": "runs without asking", "ask": "asks before every call", "deny": "never runs"}[approval]
    say(f"{name} {effect}; a workspace can only be stricter. Written to {file}.")


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Explain to the user why a file cannot be changed.

    Raises:
        Failure: it cannot, with what to do.
    """
    try:
        yield
    except edit.ConfigEditError as error:
        raise Failure(str(error), f"correct {file}, and try again", reason="not_editable") from error
    except OSError as error:
        text = f"{file} cannot be written: {error.strerror or error}"
        raise Failure(text, f"check the disk, and owner and mode of {file}", reason="not_writable") from error
