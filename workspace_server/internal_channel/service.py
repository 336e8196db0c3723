"""Builds the internal channel of one workspace from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workspace_server.call_context import Toolbox
from workspace_server.internal_channel.address import new_address
from workspace_server.internal_channel.change_watcher import ChangeWatcher
from workspace_server.internal_channel.channel import InternalChannel
from workspace_server.internal_channel.dispatcher import InternalDispatcher
from workspace_server.internal_channel.limits import DEFAULTS, ChannelLimits
from workspace_server.internal_channel.provider_config import ProviderConfig
from workspace_server.internal_channel.tools import InternalTools
from workspace_server.naming import INTERNAL_PREFIX
from workspace_server.secrets.changes import SecretChanges
from workspace_server.secrets.store import LayeredSecretStore


def make_channel(
    *,
    workspace: str,
    root: Path | None,
    folders: Sequence[Path],
    config_dir: Path,
    state_dir: Path,
    runtime_dir: Path,
    store: LayeredSecretStore,
    toolbox: Toolbox,
    version: str,
    prefix: str = INTERNAL_PREFIX,
    limits: ChannelLimits = DEFAULTS,
) -> InternalChannel:
    """The channel; call `start` to listen and `stop` in the end.

    Args:
        workspace: the workspace's id; `<runtime_dir>/internal/<id>.json` leads to the channel.
        root: the workspace's root, or None.
        folders: all folders of the workspace.
        config_dir, state_dir, runtime_dir: the user's folders.
        store: the secrets, shared with other users of the store.
        toolbox: the workspace's tools that the channel offers.
        prefix: prefix of the internal tools' names.
    """
    config = ProviderConfig(config_dir, root, state_dir / "locks")
    address = new_address(runtime_dir, workspace)
    tools = InternalTools(store, config, root, prefix)
    dispatch = InternalDispatcher(address.auth, version, tools, toolbox, folders)
    return InternalChannel(dispatch, address, ChangeWatcher(SecretChanges(store), config), limits)
