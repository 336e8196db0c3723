"""Keeps the script tools of some folders up to date, and reads a tool again only when it changed.

A tool that is being written keeps its last complete version for a moment. A snapshot is the tools of one
moment: offered tools, tools that wait for trust, and issues.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.files.change_detection import ChangeDetector, is_settled
from workspace_server.results import clean_text, well_formed
from workspace_server.sources.scripts import bundle as bundles
from workspace_server.sources.scripts.bundle import Bundle, Unreadable
from workspace_server.sources.scripts.folders import MANIFEST, Survey, Tree, Walk, WalkBudget
from workspace_server.sources.scripts.manifest import InvalidManifest, Manifest
from workspace_server.sources.scripts.script import Libraries, Script, script, shown
from workspace_server.tool import Tool
from workspace_server.trust.item import TrustItem, Verdict, trust_command

_CATEGORIES: Final = {"TRUST_PENDING": "trust", "TOOL_NAME_CLASH": "names"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All tools at one moment.

    Attributes:
        scripts: the scripts that can be called, by name.
        tools: the definitions of these scripts.
        pending: names of tools that wait for trust.
        items: everything that a user can trust.
        issues: the problems found.
    """

    scripts: Mapping[str, Script] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    pending: frozenset[str] = frozenset()
    items: tuple[TrustItem, ...] = ()
    issues: tuple[Issue, ...] = ()


class Draft:
    """Builds a `Snapshot`. `trust_path` is the folder for the `lmtb trust` command in messages."""

    def __init__(self, trust_path: str) -> None:
        self._command = trust_command(trust_path)
        self._scripts: dict[str, Script] = {}
        self._pending: set[str] = set()
        self._items: list[TrustItem] = []
        self._issues: list[Issue] = []

    def warn(self, code: str, message: str, tool_name: str | None = None, details: str | None = None) -> None:
        """Add a warning."""
        category = _CATEGORIES.get(code, "script")
        self._issues.append(Issue("warning", category, code, well_formed(message), tool_name, details))

    def note_walk(self, walk: Walk, place: str) -> None:
        """Add a warning for everything that a walk left out."""
        for relative, reason in walk.skipped:
            self.warn("SCRIPT_TOOL_INVALID", f"{place}/{clean_text(relative)} is left out: {reason}")
        if not walk.complete:
            text = f"{place} has more folders, tools or bytes than are read; the rest is left out"
            self._issues.append(Issue("error", "tools/list", "TOOL_LIST_TRUNCATED", well_formed(text)))

    def invalid(self, place: str, reason: str) -> None:
        """Add a warning about a folder whose tool is invalid."""
        self.warn("SCRIPT_TOOL_INVALID", f"The script tool in {place} is left out: {reason}")

    def add(self, script: Script, verdict: Verdict) -> None:
        """Add a tool: offered, pending trust, or left out because an earlier tool has its name."""
        name = script.manifest.name
        self._items.append(script.item)
        if verdict != "trusted":
            self._pending.add(name)
            why = "was never trusted" if verdict == "never" else "has changed since it was trusted"
            self.warn("TRUST_PENDING", f'The script tool "{name}" {why}', name, self._command)
        elif name in self._scripts:
            owner = self._scripts[name].item.key.removeprefix("script:")
            self.warn("TOOL_NAME_CLASH", f'Two script tools are named "{name}"', name, f"{owner} keeps it")
        else:
            self._scripts[name] = script
            if unknown := script.manifest.unknown:
                text = f'tool.toml of "{name}" has unknown keys: {", ".join(unknown)}'
                self.warn("SCRIPT_TOML_UNKNOWN_KEY", text, name)

    def done(self) -> Snapshot:
        """Return the snapshot."""
        tools = tuple(script.tool for script in self._scripts.values())
        return Snapshot(
            self._scripts, tools, frozenset(self._pending), tuple(self._items), tuple(self._issues)
        )


_TOO_MUCH: Final = "all libraries and scripts together are too large"
HALF_WRITTEN_S: Final = 2.0
"""Seconds for which the last valid version of a tool is offered after its files became invalid."""
Trust = Callable[[Mapping[str, str]], Mapping[str, Verdict]]
"""Maps digests by item key to verdicts by item key; called once per check, for all tools."""


@dataclass(slots=True)
class _Entry:
    """One tool folder.

    Attributes:
        place: the path that messages show.
        survey: the files when they were last read.
        settled: whether a later change of these files cannot go unnoticed.
        libraries: the libraries that the script was built with.
        current: the result of the last reading.
        last_valid: the last valid version; it is offered for a while after `current` became invalid.
        broken_since: monotonic time in seconds when `current` became invalid.
    """

    place: str
    survey: Survey
    settled: bool
    libraries: Libraries
    current: Script | InvalidManifest
    last_valid: Script | None = None
    broken_since: float = 0.0


@dataclass(slots=True)
class _Library:
    survey: Survey
    settled: bool
    bundle: Bundle | InvalidManifest


class Catalog:
    """Reads the tools of `folders`. Methods block and are thread-safe.

    Args:
        folders: tools folders; if two tools have the same name, the earlier folder wins. A folder may be
            missing.
        root: the workspace.
        trust: decides which tools may run; None for tools of the user, which need no trust.
        libraries: folders that scripts may import from; checked and trusted together with the scripts.
        clock: monotonic time in seconds.
        wall_ns: wall clock, in nanoseconds since 1970.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        root: Path,
        trust: Trust | None,
        *,
        libraries: Sequence[Path] = (),
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folders = tuple(folders)
        self._root = root
        self._trust = trust
        self._library_folders = tuple(libraries)
        self._clock = clock
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._tree = Tree(wall_ns)
        self._entries: dict[str, _Entry] = {}
        self._libraries: dict[Path, _Library] = {}
        self._last = Snapshot()
        self._is_empty = False

    def look(self, change_detector: ChangeDetector | None = None) -> Snapshot:
        """Check all files and return the tools; the same object while nothing changes.

        `change_detector` gets the paths that the result depends on.
        """
        with self._lock:
            folders = (*self._folders, *self._library_folders)
            was_empty, self._is_empty = self._is_empty, not any(map(os.path.lexists, folders))
            if was_empty and self._is_empty:
                if change_detector is not None:
                    _record_paths(change_detector, map(os.fspath, folders))
                return self._last
            self._tree.begin()
            draft = Draft(str(self._root))
            budget = WalkBudget()
            libraries = self._read_libraries(draft, budget)
            entries: dict[str, _Entry] = {}
            for folder in self._folders:
                walk = self._tree.walk(folder, budget)
                draft.note_walk(walk, shown(folder, self._root))
                for survey in walk.tools:
                    if survey.folder not in entries:
                        entries[survey.folder] = self._refreshed(survey, libraries)
            self._tree.forget()
            self._entries = entries
            self._add_tools(entries.values(), draft)
            snapshot = draft.done()
            if snapshot != self._last:
                self._last = snapshot
            if change_detector is not None:
                self._record_dependencies(change_detector)
            return self._last

    def _record_dependencies(self, change_detector: ChangeDetector) -> None:
        _record_paths(change_detector, map(os.fspath, (*self._folders, *self._library_folders)))
        _record_paths(change_detector, self._tree.looked_at)
        is_plain = not any(map(_depends_on_more, self._entries.values()))
        is_read = all(isinstance(library.bundle, Bundle) for library in self._libraries.values())
        if not (is_plain and is_read and self._tree.has_no_links):
            # targets of links are not recorded
            change_detector.mark_incomplete()

    def confirm(self, listed: Script) -> bool:
        """Whether a tool that is about to run is unchanged since it was listed, and still trusted."""
        with self._lock:
            self._tree.begin()
            survey = self._tree.survey(listed.folder)
            if MANIFEST not in (*survey.files, *(name for name, _ in survey.links)):
                return False
            entry = self._refreshed(survey, self._read_libraries(Draft(""), WalkBudget()))
            current = self._offered_version(entry)[0]
            return (
                current is not None and current.is_same(listed) and self._verdicts([current])[0] == "trusted"
            )

    def _read_libraries(self, draft: Draft, budget: WalkBudget) -> Libraries:
        bundles_by_place = {}
        for folder in self._library_folders:
            survey = self._tree.survey(str(folder))
            if not budget.take_files(len(survey.stamps), survey.size):
                survey = Survey(str(folder), problem=_TOO_MUCH)
            library = self._libraries.get(folder)
            if library is None or not library.settled or library.survey != survey:
                library = self._libraries[folder] = self._read_library(survey, library)
            place = shown(folder, self._root)
            if isinstance(library.bundle, Bundle):
                bundles_by_place[place] = library.bundle
            else:
                draft.warn(
                    "SCRIPT_LIBRARY_INVALID", f"{place} cannot be used as a library: {library.bundle.reason}"
                )
        return bundles_by_place

    def _read_library(self, survey: Survey, before: _Library | None) -> _Library:
        bundle, settled = self._read(survey)
        if before is not None and isinstance(bundle, Bundle) and bundle == before.bundle:
            bundle = before.bundle  # the same object makes later comparisons fast
        return _Library(survey, settled, bundle)

    def _read(self, survey: Survey) -> tuple[Bundle | InvalidManifest, bool]:
        """Read a folder; returns also whether the files match the survey and later changes will show."""
        now = self._wall_ns()
        try:
            bundle, stamps = bundles.read(survey)
        except Unreadable as error:
            return InvalidManifest(str(error)), False
        settled = all(is_settled(stamp, now) for stamp in survey.stamps)
        return bundle, settled and set(stamps) <= set(survey.stamps)

    def _refreshed(self, survey: Survey, libraries: Libraries) -> _Entry:
        """The entry of a folder; its files are read again only if they changed."""
        entry = self._entries.get(survey.folder)
        if entry is not None and entry.settled and entry.survey == survey and entry.libraries == libraries:
            return entry
        bundle, settled = self._read(survey)
        current = self._build(survey.folder, bundle, libraries)
        if entry is None:
            entry = self._entries[survey.folder] = _Entry(
                shown(survey.folder, self._root), survey, settled, libraries, current
            )
        elif isinstance(entry.current, Script):
            if isinstance(current, InvalidManifest):
                entry.broken_since = self._clock()
            elif current.is_same(entry.current):
                current = entry.current  # the same object makes later comparisons fast
        entry.survey, entry.settled, entry.libraries, entry.current = survey, settled, libraries, current
        if isinstance(current, Script):
            entry.last_valid = current
        return entry

    def _build(
        self, folder: str, bundle: Bundle | InvalidManifest, libraries: Libraries
    ) -> Script | InvalidManifest:
        if isinstance(bundle, InvalidManifest):
            return bundle
        place = shown(folder, self._root)
        return script(folder, place, bundle, libraries, of_workspace=self._trust is not None)

    def _add_tools(self, entries: Iterable[_Entry], draft: Draft) -> None:
        offered_scripts = []
        for entry in entries:
            offered, reason = self._offered_version(entry)
            if offered is None:
                draft.invalid(entry.place, reason)
                continue
            if reason:
                text = f"The script tool in {entry.place} is invalid; its last valid version is offered"
                draft.warn("SCRIPT_TOOL_INVALID", f"{text}: {reason}", offered.manifest.name)
            offered_scripts.append(offered)
        for offered, verdict in zip(offered_scripts, self._verdicts(offered_scripts), strict=True):
            draft.add(offered, verdict)

    def _offered_version(self, entry: _Entry) -> tuple[Script | None, str]:
        """The version of a tool that is offered, if any, and the problem with its current files."""
        if isinstance(entry.current, Script):
            problem = _folder_problem(self._root, entry.current.manifest)
            return (None, problem) if problem else (entry.current, "")
        if entry.last_valid is not None and self._clock() - entry.broken_since > HALF_WRITTEN_S:
            entry.last_valid = None
        return entry.last_valid, entry.current.reason

    def _verdicts(self, scripts: Sequence[Script]) -> list[Verdict]:
        if self._trust is None:
            return ["trusted"] * len(scripts)
        verdicts = self._trust({script.item.key: script.item.digest() for script in scripts})
        return [verdicts.get(script.item.key, "never") for script in scripts]


def _depends_on_more(entry: _Entry) -> bool:
    """Whether a tool depends on more than its files: on a working folder, or on time after it broke."""
    if isinstance(entry.current, Script):
        return entry.current.manifest.cwd is not None
    return entry.last_valid is not None


def _record_paths(change_detector: ChangeDetector, paths: Iterable[str]) -> None:
    for path in paths:
        change_detector.add_path(path)


def working_folder(root: Path, cwd: str) -> Path | None:
    """Resolve `cwd`; None if it is not a folder inside the workspace. Blocks."""
    try:
        folder, real = (root / cwd).resolve(), root.resolve()
        return folder if folder.is_relative_to(real) and folder.is_dir() else None
    except (OSError, RuntimeError):
        return None


def _folder_problem(root: Path, manifest: Manifest) -> str:
    """The problem with the working folder, or an empty text; checked every time, as it may change."""
    if manifest.cwd is None or working_folder(root, manifest.cwd) is not None:
        return ""
    return "cwd is not a folder inside the workspace"
