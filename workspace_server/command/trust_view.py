"""Collects everything in a workspace that needs trust, as the workspace server does, and shows it.

Finds items by the names that people give them. All texts of items come from the workspace, so they are
escaped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from workspace_server.catalog.active_sources import UNRESOLVED
from workspace_server.command.arguments import UserFolders
from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import Configuration
from workspace_server.features import parts
from workspace_server.internal_channel.provider_config import provider_item
from workspace_server.processes.login_shell import login_environment
from workspace_server.sources.factory import WORKSPACE_TOOLS
from workspace_server.sources.scripts.catalog import Catalog, Snapshot
from workspace_server.trust.difference import ItemChange, file_line
from workspace_server.trust.item import DATA, TrustItem, Verdict
from workspace_server.trust.items import NO_MARKS, DataMarks, TrustItemFactory
from workspace_server.trust.records import RecordedItem, recorded_file
from workspace_server.trust.store import TrustStore


@dataclass(frozen=True, slots=True)
class Gathered:
    """The items of a workspace that need trust, and the issues of its other files.

    `inherits`: whether the user lets them inherit the trust of another worktree.
    """

    items: tuple[TrustItem, ...]
    issues: tuple[Issue, ...]
    inherits: bool
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
    state_dir: Path | None = None,
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
        state_dir: the user's state folder, for what was held there of trusted servers.
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
        name: part.needs_trust(
            root,
            configuration.features[name],
            search,
            state_dir=state_dir,
            starts_programs=name in starting,
        )
        for name, part in parts().items()
    }
    issues = (
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
        tuple(issue for issue in issues if issue.category != "trust"),
        configuration.inherits_trust,
        servers,
    )


def all_items(
    root: Path, config_dir: Path, environ: Mapping[str, str], path: str | None = None
) -> list[TrustItem]:
    """The items of `gather`."""
    return list(gather(root, config_dir, environ, path).items)


def _differs_in_data_only(shown_item: TrustItem, now: TrustItem) -> bool:
    """Whether what `now` pins is a part of what was shown, but for the files that are data now."""
    facts, others = dict(shown_item.facts), dict(now.facts)
    files, left = facts.pop("files", {}), others.pop("files", {})
    facts.pop(DATA, None), others.pop(DATA, None)
    return facts == others and left.items() <= files.items() and now.files.items() <= shown_item.files.items()


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


# The title is the command that would run. All of it should be seen before it is trusted, but a file can make
# it as long as it likes.
MAX_TITLE: Final = 4_000
# About two screens for one item. More would push the other items and the question out of sight.
_MAX_DETAILS: Final = 60
_WORDS: Final[Mapping[Verdict, str]] = {"never": "new", "changed": "changed", "trusted": "trusted"}
_COLOURS: Final[Mapping[Verdict, str]] = {"never": "yellow", "changed": "yellow", "trusted": "green"}


def item_lines(
    items: Sequence[TrustItem], verdicts: Mapping[str, Verdict], origins: Mapping[str, str]
) -> Iterator[str]:
    """All items with details of those that wait for trust, and where others were trusted; printable lines."""
    for item in items:
        verdict = verdicts[item.key]
        word = click.style(f"{_WORDS[verdict]:8}", fg=_COLOURS[verdict])
        yield f"  {word} {printable(item.title, width=MAX_TITLE)}"
        if verdict == "trusted":
            if item.key in origins:
                yield f"             trusted in {printable(origins[item.key], width=MAX_TITLE)}"
            continue
        details = list(_details(item))
        for line in details[:_MAX_DETAILS]:
            yield f"             {printable(line, width=MAX_TITLE)}"
        if len(details) > _MAX_DETAILS:
            yield f"             … and {len(details) - _MAX_DETAILS} more"


def change_lines(changes: Sequence[ItemChange]) -> Iterator[str]:
    """Changes line by line; printable lines."""
    for change in changes:
        yield f"{change.kind}: {change.title}"
        for line in change.lines:
            yield f"    {click.style(line, fg=_line_colour(line))}"


def item_as_json(item: TrustItem, verdict: Verdict, origin: str | None = None) -> dict[str, Any]:
    """An item as a JSON object; `origin` is the worktree from which it inherits its trust."""
    content = item.facts.get("content")
    return {
        "key": item.key,
        "title": item.title,
        "state": _WORDS[verdict],
        "digest": item.digest(),
        "files": [file_line(name, *_size_and_hash(content)) for name, content in sorted(item.files.items())],
        "data": item.facts.get(DATA, []),
        "mayBeData": list(item.may_be_data),
        **({} if content is None else {"content": content}),
        **({} if origin is None else {"inheritedFrom": origin}),
    }


def _details(item: TrustItem) -> Iterator[str]:
    facts = item.facts
    if "program" in facts:
        yield f"program: {facts['program'] or 'not found on the PATH of workspace servers'}"
    for name, label in (
        ("interpreter", "program"),
        ("env", "sets"),
        ("secrets", "gets your secrets"),
        ("headers", "sends"),
        ("cwd", "starts in"),
    ):
        value = facts.get(name)
        if value not in (None, "", ".", [], {}):
            yield f"{label}: {value if isinstance(value, str) else ', '.join(map(str, value))}"
    written = facts.get("written", {})
    if isinstance(written, dict) and written.get("sandbox") not in (None, False, "off"):
        yield f"in a sandbox: {written['sandbox']}"
    yield from map(str, facts.get("changes", ()))
    if facts.get("auth", "none") != "none":
        yield f"signs in by: {facts['auth']}"
    if "from" in facts:
        yield f"configured in: {facts['from']}"
    for path in facts.get(DATA, ()):
        yield f"data: {path} (may change without asking again)"
    for path in item.may_be_data:
        yield f"data file? {path} (a change asks again, unless you call it data)"
    for path, reason in item.not_data.items():
        yield f"no data: {path}: {reason}"
    for name, content in sorted(item.files.items()):
        yield f"file: {file_line(name, *_size_and_hash(content))}"


def _size_and_hash(content: bytes) -> tuple[int, str]:
    file = recorded_file(content, 0)
    return file.size, file.sha256


def _line_colour(line: str) -> str | None:
    return {"-": "red", "+": "green"}.get(line[:1])


@dataclass(frozen=True, slots=True)
class TrustView:
    """The items of a workspace, or the chosen ones, and their trust at one moment.

    `others` are the keys of the items that were not chosen; `origins` the worktrees in which items were
    trusted that this one inherits, by key.
    """

    root: Path
    items: Sequence[TrustItem]
    issues: Sequence[Issue]
    verdicts: Mapping[str, Verdict]
    recorded: Mapping[str, RecordedItem]
    problem: str | None
    gathered: Gathered
    others: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """The number of items that are not trusted."""
        return sum(verdict != "trusted" for verdict in self.verdicts.values())

    @property
    def removed(self) -> list[str]:
        """The keys of trusted items that the workspace has no more."""
        transient = tuple(part.transient_prefix for part in parts().values() if part.transient_prefix)
        gone = self.recorded.keys() - self.verdicts.keys() - set(self.others)
        return sorted(key for key in gone if not key.startswith(transient))

    @property
    def settled(self) -> bool:
        """Whether everything is trusted and no recorded item was removed."""
        return not self.waiting and not self.removed and self.problem is None

    def data_files(self, *, all_items: bool = False) -> dict[str, tuple[str, ...]]:
        """The files that the user may mark as data, by item key; of items that wait for trust, or of all."""
        items = [item for item in self.items if all_items or self.verdicts[item.key] != "trusted"]
        return {item.key: item.may_be_data for item in items if item.may_be_data}

    def select_items(self, names: Sequence[str]) -> TrustView:
        """The view of the items with these names; this view if there are none.

        Raises:
            Failure: no item has one of the names.
        """
        if not names:
            return self
        keys = {key for name in names for key in self._keys_of(name)}
        items = [item for item in self.items if item.key in keys]
        verdicts = {key: verdict for key, verdict in self.verdicts.items() if key in keys}
        recorded = {key: item for key, item in self.recorded.items() if key in keys}
        return replace(
            self,
            items=items,
            issues=(),
            verdicts=verdicts,
            recorded=recorded,
            others=tuple(item.key for item in self.items if item.key not in keys),
        )

    def with_data(self, data_files: Mapping[str, Sequence[str]]) -> TrustView:
        """This view with these `data_files` as data.

        Raises:
            Failure: something else changed since the view was read.
        """
        items = self.gathered.items
        marks = {item.key: (*item.facts.get(DATA, ()), *data_files.get(item.key, ())) for item in items}
        again = self.gathered.with_data(marks)
        if again is None:
            text = "something changed while you were asked; nothing was trusted"
            raise Failure(text, "run lmtb trust again", reason="changed")
        return replace(self, items=[item for item in again if item.key in self.verdicts])

    def as_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        items = [
            item_as_json(item, self.verdicts[item.key], self.origins.get(item.key)) for item in self.items
        ]
        return {
            "root": str(self.root),
            "trusted": not self.waiting and self.problem is None,
            "items": items,
            "removed": self.removed,
            "issues": [issue.as_json() for issue in self.issues],
            "problem": self.problem,
        }

    def _keys_of(self, name: str) -> list[str]:
        keys = [item.key for item in self.items if name in _names_of(item)]
        if not keys:
            names = sorted({item_name for item in self.items for item_name in _names_of(item)})
            titles = ", ".join(sorted(short_name(item) for item in self.items)) or "nothing"
            raise Failure(
                f"{self.root} has no item {name}{did_you_mean(name, names)}",
                f"name one of: {printable(titles, width=MAX_TITLE)}",
                reason="unknown_item",
            )
        return keys


def read_view(store: TrustStore, root: Path, folders: UserFolders) -> TrustView:
    """Read the items of a workspace and their trust. Runs nothing of it."""
    marks = store.data_marks(root)
    items = gather(root, folders.config_dir, os.environ, folders.path, marks, state_dir=folders.state_dir)
    store.inherits = items.inherits
    verdicts = store.item_verdicts(root, items.items)
    issue = store.issue(root)
    problem = None if issue is None else issue.message
    recorded = store.recorded(root)
    own = [item for item in items.items if item.key not in recorded]
    origins = store.origins(root, own)
    return TrustView(root, items.items, items.issues, verdicts, recorded, problem, items, origins=origins)


def _names_of(item: TrustItem) -> Iterable[str]:
    """What people may call an item: its key, the key without its kind, a tool's name or folder."""
    kind, _, name = item.key.partition(":")
    return {item.key, name or kind, short_name(item)}


def short_name(item: TrustItem) -> str:
    """The name of a tool or server; `settings` for those."""
    return item.title.partition(":")[0].rpartition(" ")[2]
