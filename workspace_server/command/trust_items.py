"""Collects everything in a workspace that needs trust before it runs, as the workspace server does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from protocol.issues import Issue
from workspace_server.catalog.active_sources import UNRESOLVED
from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import Configuration
from workspace_server.processes.login_shell import login_environment
from workspace_server.sources.factory import WORKSPACE_TOOLS
from workspace_server.sources.scripts.definition.catalog import Catalog
from workspace_server.sources.scripts.definition.snapshot import Snapshot
from workspace_server.trust.item import TrustItem, Verdict
from workspace_server.trust.items import TrustItemFactory


@dataclass(frozen=True, slots=True)
class Gathered:
    """The items of a workspace that need trust, and the issues of its other files."""

    items: tuple[TrustItem, ...]
    issues: tuple[Issue, ...]


def gather(root: Path, config_dir: Path, environ: Mapping[str, str], path: str | None = None) -> Gathered:
    """Collect script tools, servers and settings, without running any of them.

    Args:
        root: the workspace's folder.
        config_dir: the user's configuration folder.
        environ: the environment that the workspace server would have.
        path: the PATH of the process that starts servers; None for the one in `environ`.
    """
    known = dict(environ) if path is None else {**environ, "PATH": path}
    configuration = ConfigurationLoader(root, config_dir, known).current()
    if _needs_shell(configuration):  # starting a login shell is slow
        shell = asyncio.run(login_environment(known))
        known = {**shell, **known, "PATH": shell["PATH"]}
        configuration = ConfigurationLoader(root, config_dir, known).current()
    scripts = _scripts(root, configuration)
    found = (*configuration.issues, *scripts.issues)
    return Gathered(
        (*scripts.items, *TrustItemFactory(root).all(configuration, known.get("PATH", ""))),
        tuple(issue for issue in found if issue.category != "trust"),
    )


def all_items(
    root: Path, config_dir: Path, environ: Mapping[str, str], path: str | None = None
) -> list[TrustItem]:
    """The items of `gather`."""
    return list(gather(root, config_dir, environ, path).items)


def _needs_shell(configuration: Configuration) -> bool:
    """Whether the login shell's environment is needed, as in `catalog/active_sources.py`."""
    unresolved = any(issue.code == UNRESOLVED for issue in configuration.issues)
    named = any(server.enabled and server.defaulted for server in configuration.remote)
    return unresolved or named or any(server.enabled for server in configuration.stdio)


def _scripts(root: Path, configuration: Configuration) -> Snapshot:
    scripts = configuration.scripts
    folders = [root / WORKSPACE_TOOLS, *scripts.workspace_tools_path]
    return Catalog(folders, root, _all_untrusted, libraries=scripts.workspace_libraries_path).look()


def _all_untrusted(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    return dict.fromkeys(digests, "never")
