"""The verb login: signs in to a remote server of the workspace, in the user's browser.

The tokens are stored in the secret store, where the workspace server finds them at its next attempt.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from lm_tools_bridge.terminal.command_line import Failure, is_json, json_option, print_line, say
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.trust import FOLDER
from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import RemoteServer
from workspace_server.trust.item import trust_command
from workspace_server.trust.items import TrustItemFactory
from workspace_server.trust.store import TrustStore


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@click.argument("namespace")
@click.option("--no-browser", is_flag=True, help="Only print the address of the page to sign in on.")
@json_option
@click.pass_obj
def login(folders: UserFolders, *, root: Path, namespace: str, no_browser: bool, as_json: bool) -> None:
    """Sign in to the remote server NAMESPACE of the workspace ROOT in your browser."""
    folder = real_folder(root)
    configuration = ConfigurationLoader(folder, folders.config_dir, os.environ).current()
    server = _server(configuration.remote, namespace)
    if server.auth != "oauth":
        is_toml = server.origin.file.suffix == ".toml"
        member = 'auth = "oauth"' if is_toml else '"oauth": {}'
        text = f'"{namespace}" does not sign in with OAuth'
        step = f"write {member} into its entry in {server.origin.file} if it should, else a token"
        raise Failure(text, step, reason="no_oauth")
    _refuse_untrusted(server, folder, folders, inherits=configuration.inherits_trust)
    _sign_in(server, folders, _tell if no_browser else _show)
    if as_json:
        print_line({"ok": True, "server": namespace})
    say(f"Signed in at {printable(namespace)}. Its tools follow; look with: lmtb servers")


def _server(servers: tuple[RemoteServer, ...], namespace: str) -> RemoteServer:
    servers_by_name = {server.namespace: server for server in servers}
    if (match := servers_by_name.get(namespace)) is not None:
        return match
    text = f'this workspace has no remote server "{namespace}"{did_you_mean(namespace, servers_by_name)}'
    step = (
        f"name one of its remote servers: {', '.join(servers_by_name)}"
        if servers_by_name
        else "add one to .mcp.json or .lm-tools-bridge/workspace.toml"
    )
    raise Failure(text, step, reason="unknown_server")


def _refuse_untrusted(server: RemoteServer, root: Path, folders: UserFolders, *, inherits: bool) -> None:
    """Refuse to sign in to a server of an untrusted workspace: it may imitate the real one."""
    if server.origin.scope != "workspace":
        return
    item = TrustItemFactory(root).remote(server)
    store = TrustStore(folders.state_dir / FOLDER)
    store.inherits = inherits
    if store.verdict(root, item) != "trusted":
        text = f"{server.namespace} comes with the workspace, and waits for your trust"
        raise Failure(text, f"look at it first: {trust_command(root)}", reason="not_trusted")


def _sign_in(server: RemoteServer, folders: UserFolders, show: Callable[[str], None]) -> None:
    # the SDK takes most of a second to load
    from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError
    from workspace_server.secrets.store import open_store
    from workspace_server.sources.mcp.remote import login as remote

    try:
        asyncio.run(remote.login(server, open_store(folders.state_dir, os.environ), show))
    except remote.LoginFailed as error:
        raise Failure(str(error), "nothing was stored; try again", reason="login_failed") from error
    except (InvalidSecretError, SecretStoreError) as error:
        text = f"the login cannot be stored: {error}"
        raise Failure(text, "try again once that is solved", reason="unavailable") from error


def _tell(url: str) -> None:
    """Print the URL of the page."""
    if is_json():
        print_line({"url": url})
    say("Sign in on this page:", f"  {printable(url, width=4_000)}")
    sys.stdout.flush()


def _show(url: str) -> None:
    """Open the page, and print its URL for a browser on another machine."""
    import threading
    import webbrowser

    _tell(url)
    say("It should open in your browser.")
    # in a thread: a text browser in this terminal would block the callback
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    say("Waiting for your answer there; Ctrl-C gives up.")
