"""Builds the set of language servers of one workspace from its parts. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workspace_server.config.model import LanguageServerEntry
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.language_servers.kinds.available_kinds import (
    AvailableKinds,
    KindChoices,
    Trusts,
)
from workspace_server.sources.language_servers.session.pool import PoolContext, ServerPool
from workspace_server.sources.language_servers.session.server_process.server_supervisor import (
    ServerSupervisor,
)
from workspace_server.sources.language_servers.session.sync.project_sync import sync_by
from workspace_server.sources.language_servers.session.tree.tree_watch import TreeWatch


def make_servers(
    folders: Sequence[Path],
    dependencies: Dependencies,
    trusts: Trusts,
    entries: tuple[LanguageServerEntry, ...] = (),
) -> ServerPool:
    """The language servers of a workspace with these folders, absolute and link-free.

    Args:
        folders: the workspace's folders.
        dependencies: the workspace's world.
        trusts: what of the project may run.
        entries: what the configuration says of single kinds.
    """
    watch = TreeWatch(folders)
    follow = sync_by(watch)
    root = Path(dependencies.root)
    kinds = AvailableKinds(folders, KindChoices(lambda: dependencies.search_path, root, trusts, entries))
    context = PoolContext(tuple(folders), dependencies.server_environment, dependencies.version)
    return ServerPool(kinds, context, lambda name: ServerSupervisor(name, follow), watch)
