"""Collects everything in a workspace that needs trust before it runs, as the workspace server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.catalog.active_sources import UNRESOLVED
from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import Configuration
from workspace_server.features import parts
from workspace_server.internal_channel.provider_config import provider_item
from workspace_server.processes.login_shell import login_environment
from workspace_server.sources.factory import WORKSPACE_TOOLS
from workspace_server.sources.scripts.definition.catalog import Catalog
from workspace_server.sources.scripts.definition.snapshot import Snapshot
from workspace_server.trust.item import DATA, TrustItem, Verdict
from workspace_server.trust.items import NO_MARKS, DataMarks, TrustItemFactory


@dataclass(frozen=True, slots=True)
class Gathered:
    """The items of a workspace that need trust, and the issues of its other files."""

    items: tuple[TrustItem, ...]
    issues: tuple[Issue, ...]
    _servers: Callable[[DataMarks], Sequence[TrustItem]]

    def with_data(self, marks: DataMarks) -> tuple[TrustItem, ...] | None:
        """The items with these files, by item key, as data; None if anything else changed since."""
        again = {item.key: item for item in self._servers(marks)}
        items = tuple(again.get(item.key, item) for item in self.items)
        return items if all(map(_differs_in_data_only, self.items, items)) else None


def gather(
    root: Path,
    config_dir: Path,
    environ: Mapping[str, str],
    path: str | None = None,
    marks: DataMarks = NO_MARKS,
    *,
    use_shell: bool = True,
) -> Gathered:
    """Collect script tools, servers, settings, addresses of model providers, and items of features.

    Runs none of them.

    Args:
        root: the workspace's folder.
        config_dir: the user's configuration folder.
        environ: the environment that the workspace server would have.
        path: the PATH of the process that starts servers; None for the one in `environ`.
        marks: the files that the user marked as data.
        use_shell: whether the login shell may be started for its variables, as workspace servers do.
    """
    variables = dict(environ) if path is None else {**environ, "PATH": path}
    configuration = ConfigurationLoader(root, config_dir, variables).current()
    starting = {
        name for name, part in parts().items() if part.may_start_programs(root, configuration.features[name])
    }
    if use_shell and (starting or _needs_shell(configuration)):  # starting a login shell is slow
        shell = asyncio.run(login_environment(variables))
        variables = {**shell, **variables, "PATH": shell["PATH"]}
        configuration = ConfigurationLoader(root, config_dir, variables).current()
    scripts = _scripts(root, configuration)
    factory, search = TrustItemFactory(root), variables.get("PATH", "")
    needs = {
        name: part.needs_trust(root, configuration.features[name], search, starts_programs=name in starting)
        for name, part in parts().items()
    }
    found = (
        *configuration.issues,
        *scripts.issues,
        *(issue for each in needs.values() for issue in each.issues),
    )
    files = [item for name, each in needs.items() if name not in starting for item in each.items]
    programs = [item for name, each in needs.items() if name in starting for item in each.items]

    def servers(marks: DataMarks) -> Sequence[TrustItem]:
        return factory.all(configuration, search, data=marks)

    addresses = provider_item(root)
    providers = () if addresses is None else (addresses,)
    return Gathered(
        (*scripts.items, *files, *servers(marks), *programs, *providers),
        tuple(issue for issue in found if issue.category != "trust"),
        servers,
    )


def all_items(
    root: Path, config_dir: Path, environ: Mapping[str, str], path: str | None = None
) -> list[TrustItem]:
    """The items of `gather`."""
    return list(gather(root, config_dir, environ, path).items)


def _differs_in_data_only(shown: TrustItem, now: TrustItem) -> bool:
    """Whether what `now` pins is a part of what was shown, but for the files that are data now."""
    facts, others = dict(shown.facts), dict(now.facts)
    files, left = facts.pop("files", {}), others.pop("files", {})
    facts.pop(DATA, None), others.pop(DATA, None)
    return facts == others and left.items() <= files.items() and now.files.items() <= shown.files.items()


def _needs_shell(configuration: Configuration) -> bool:
    """Whether the login shell's environment is needed, as in `catalog/active_sources.py`."""
    unresolved = any(issue.code == UNRESOLVED for issue in configuration.issues)
    needs_variables = any(server.enabled and server.defaulted for server in configuration.remote)
    return unresolved or needs_variables or any(server.enabled for server in configuration.stdio)


def _scripts(root: Path, configuration: Configuration) -> Snapshot:
    scripts = configuration.scripts
    folders = [root / WORKSPACE_TOOLS, *scripts.workspace_tools_path]
    return Catalog(folders, root, _all_untrusted, libraries=scripts.workspace_libraries_path).look()


def _all_untrusted(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    return dict.fromkeys(digests, "never")
