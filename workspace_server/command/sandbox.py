"""The verbs sandbox and allow-write: decide in one project what a stdio server may do to the user's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import click

from lm_tools_bridge.terminal.command_line import Failure, is_json, json_option, print_json, say
from lm_tools_bridge.text.near_names import did_you_mean
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.tool_settings import explained
from workspace_server.config import edit
from workspace_server.config.load import USER_FILE, ConfigurationLoader
from workspace_server.config.model import StdioServer

_NEVER: Final = (
    *(".ssh", ".gnupg", ".aws", ".kube", ".docker", ".netrc", ".git-credentials", ".pki"),
    *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".inputrc"),
    *(".config/autostart", ".config/systemd", ".config/git", ".gitconfig", ".local/bin", "bin"),
    "Library/LaunchAgents",
)
"""Below the home folder: keys, and what other programs start with. Who writes there needs no sandbox."""
_CHOICES: Final[Mapping[str, Literal["project", "off"] | None]] = {
    "project": "project",
    "off": "off",
    "default": None,
}


@click.group()
def sandbox() -> None:
    """What stdio servers of a project may do to the user's files."""


@sandbox.command()
@click.argument("name")
@click.argument("word", type=click.Choice(list(_CHOICES)))
@click.option("--root", type=click.Path(path_type=Path), required=True, help="The workspace's folder.")
@json_option
@click.pass_obj
def choose(folders: UserFolders, /, name: str, word: str, root: Path, **_: bool) -> None:
    """Run the server NAME in a sandbox, without one, or as its entry says."""
    folder = real_folder(root)
    namespace = _server(name, folder, folders).namespace
    file = folders.config_dir / USER_FILE
    with explained(file):
        edit.set_sandbox(file, folder, namespace, _CHOICES[word])
    if is_json():
        print_json({"server": namespace, "sandbox": word, "root": str(folder)})
        return
    effect = {
        "project": "runs in a sandbox",
        "off": "runs without a sandbox",
        "default": "runs as its entry and your settings say",
    }
    say(f'"{namespace}" {effect[word]} in {folder}, from its next start: lmtb servers restart {namespace}')


@sandbox.command(name="allow-write")
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--root", type=click.Path(path_type=Path), required=True, help="The workspace's folder.")
@json_option
@click.pass_obj
def allow_write(folders: UserFolders, /, name: str, path: Path, root: Path, **_: bool) -> None:
    """Let the server NAME write to PATH from its sandbox."""
    folder = real_folder(root)
    server = _server(name, folder, folders)
    if server.sandbox is None:
        text = f'"{server.namespace}" runs without a sandbox, so it may write there'
        step = f"to put it into one: lmtb servers sandbox {server.namespace} project"
        raise Failure(text, step, reason="no_sandbox")
    place = os.path.realpath(path.expanduser())  # a link could lead to keys, or be changed to later
    _refuse_keys(place)
    file = folders.config_dir / USER_FILE
    with explained(file):
        edit.allow_write(file, folder, server.namespace, place)
    if is_json():
        print_json({"server": server.namespace, "write": place, "root": str(folder)})
        return
    step = f"lmtb servers restart {server.namespace}"
    say(f'"{server.namespace}" may write to {place}, in {folder}, from its next start: {step}')


def _refuse_keys(place: str) -> None:
    home = os.path.realpath(Path.home())
    key_paths = [os.path.realpath(Path(home, name)) for name in _NEVER]
    # a folder around keys holds them as well, and the home folder holds all of them
    if Path(home).is_relative_to(place) or any(
        Path(place).is_relative_to(path) or Path(path).is_relative_to(place) for path in key_paths
    ):
        text = f"{place} holds keys, or what other programs start with; who writes there has left the sandbox"
        raise Failure(text, "name a folder for this server alone", reason="not_confinable")


def _server(name: str, folder: Path, folders: UserFolders) -> StdioServer:
    namespace = name.removeprefix("stdio:")
    servers = {
        server.namespace: server
        for server in ConfigurationLoader(folder, folders.config_dir, os.environ).current().stdio
    }
    if namespace not in servers:
        near = did_you_mean(namespace, servers)
        raise Failure(
            f'this project has no stdio server "{namespace}"{near}',
            "see what it has: lmtb servers",
            reason="unknown",
        )
    return servers[namespace]
