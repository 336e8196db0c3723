"""Builds the set of language servers of one workspace from its parts. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lm_tools_bridge.code_intelligence.kinds.available_kinds import AvailableKinds, KindChoices, Trusts
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import ServerSupervisor
from lm_tools_bridge.code_intelligence.session.pool import PoolContext, ServerPool
from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from lm_tools_bridge.code_intelligence.sync.project_sync import sync_by
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from workspace_server.sources.dependencies import Dependencies


def make_servers(
    folders: Sequence[Path],
    dependencies: Dependencies,
    trusts: Trusts,
    entries: tuple[LanguageServerEntry, ...] = (),
    python_environment: str = "",
) -> ServerPool:
    """The language servers of a workspace with these folders, absolute and link-free.

    Args:
        folders: the workspace's folders.
        dependencies: the workspace's world.
        trusts: what of the project may run.
        entries: what the configuration says of single kinds.
        python_environment: what it says of the environment of Python; empty for nothing.
    """
    watch = TreeWatch(folders)
    follow = sync_by(watch)
    root = Path(dependencies.root)
    environment = root / python_environment if python_environment else None
    choices = KindChoices(
        lambda: dependencies.search_path,
        root,
        trusts,
        entries,
        lambda: dependencies.variables,
        environment,
    )
    kinds = AvailableKinds(folders, choices)
    context = PoolContext(tuple(folders), dependencies.server_environment, dependencies.version)
    return ServerPool(kinds, context, lambda name: ServerSupervisor(name, follow), watch)
