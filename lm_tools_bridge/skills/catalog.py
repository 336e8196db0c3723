"""Keeps the skills of a project and its user up to date, and reads a skill again only when it changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol import skills_extension as extension
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.skills.folders import Budget, FoundSkill, walk
from lm_tools_bridge.skills.reading import Reading, Skill, SkillFile, read
from workspace_server.files.change_detection import ChangeDetector
from workspace_server.results import clean_text
from workspace_server.trust.item import TrustItem, Verdict, trust_command

PROJECT_FOLDERS: Final = (".lm-tools-bridge/skills", ".agents/skills", ".claude/skills")
"""Folders of skills in a project; if two skills have the same path, the earlier folder wins."""
HOME_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""The same in the user's home."""
CONFIG_FOLDER: Final = "skills"
"""The same in the user's configuration folder, before those in the home."""
INVALID: Final = "SKILL_INVALID"
Trust = Callable[[Mapping[str, str]], Mapping[str, Verdict]]
"""Maps digests by item key to verdicts by item key."""


@dataclass(frozen=True, slots=True)
class SkillSnapshot:
    """All skills at one moment.

    Attributes:
        skills: the skills that are served, sorted by URI.
        files: all files of these skills, by URI.
        pending: the URIs of skills that wait for trust, with their names.
        items: everything that a user can trust, if the catalogue keeps it.
        issues: the problems found.
    """

    skills: tuple[Skill, ...] = ()
    files: Mapping[str, SkillFile] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
    items: tuple[TrustItem, ...] = ()
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose skills: the beginning of their URIs, their folders, and what limits and trusts them."""

    uri: str
    folders: Sequence[Path]
    within: str | None = None
    trust: Trust | None = None


def user_folders(config_dir: Path, environ: Mapping[str, str]) -> list[Path]:
    """The user's folders of skills, by precedence."""
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return [config_dir / CONFIG_FOLDER, *(Path(home, folder) for folder in HOME_FOLDERS if home)]


class SkillCatalog:
    """Reads the skills of one workspace. Methods block and are thread-safe.

    Args:
        root: the workspace, without symbolic links.
        trust: decides which skills of the project may be served.
        own: the user's folders of skills, which need no trust.
        keep_items: whether snapshots contain the trust items, with the bytes of all files of the project.
        wall_ns: the wall clock in nanoseconds since 1970.
    """

    def __init__(
        self,
        root: Path,
        trust: Trust,
        own: Sequence[Path] = (),
        *,
        keep_items: bool = False,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = root
        self._owners = (
            _Owner(extension.PROJECT, [root / folder for folder in PROJECT_FOLDERS], str(root), trust),
            _Owner(extension.USER, own),
        )
        self._keep_items = keep_items
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._readings: dict[tuple[str, str], tuple[FoundSkill, Reading]] = {}
        self._changes = ChangeDetector(wall_ns)
        self._found: list[tuple[_Owner, Reading]] | None = None
        self._issues: list[Issue] = []
        self._last = SkillSnapshot()

    def look(self) -> SkillSnapshot:
        """Check all files and their trust; the same object while nothing changes."""
        with self._lock:
            if self._found is None or not self._changes.is_unchanged():
                begun = self._changes.begin()
                self._found = self._find()
                self._changes.end(begun)
            snapshot = self._judged(self._found)
            if snapshot != self._last:
                self._last = snapshot
            return self._last

    def _find(self) -> list[tuple[_Owner, Reading]]:
        """All skills of all owners, valid or not; the issues of the folders go to `_issues`."""
        readings: list[tuple[_Owner, Reading]] = []
        before, self._readings = self._readings, {}
        self._issues = []
        for owner in self._owners:
            budget = Budget()
            for folder in owner.folders:
                walked = walk(folder, owner.within, budget, self._changes.add_path)
                folder_text = self._shown(str(folder))
                self._issues += _walk_issues(walked.skipped, folder_text, complete=walked.complete)
                readings += [(owner, self._reading(owner, skill, before)) for skill in walked.skills]
        return readings

    def _reading(
        self,
        owner: _Owner,
        skill: FoundSkill,
        before: Mapping[tuple[str, str], tuple[FoundSkill, Reading]],
    ) -> Reading:
        key = (owner.uri, f"{skill.real}\0{skill.relative}")
        last = before.get(key)
        if last is not None and last[0] == skill and last[1].is_settled:
            reading = last[1]
        else:
            place = self._shown(skill.real)
            reading = read(skill, owner.uri, place, self._wall_ns)
            if reading.problem and not reading.problem.startswith(place):
                reading = Reading(None, None, f"{place}: {reading.problem}", reading.is_settled)
            if not self._keep_items:  # its contents would stay in memory
                reading = Reading(reading.skill, None, reading.problem, reading.is_settled)
        if not reading.is_settled:
            self._changes.mark_incomplete()
        self._readings[key] = skill, reading
        return reading

    def _judged(self, readings: Sequence[tuple[_Owner, Reading]]) -> SkillSnapshot:
        """The snapshot of these skills under the user's trust as it is now."""
        issues = list(self._issues)
        served: dict[str, Skill] = {}
        pending: dict[str, str] = {}
        items = []
        verdicts = _verdicts(readings)
        for owner, reading in readings:
            if reading.skill is None:
                issues.append(Issue("warning", "skill", INVALID, f"A skill is left out. {reading.problem}"))
                continue
            skill, verdict = reading.skill, "trusted"
            if owner.trust is not None:
                verdict = verdicts.get(skill.key, "never")
                items += [reading.item] if reading.item is not None else []
            if verdict != "trusted":
                pending[skill.uri] = skill.name
                issues.append(self._pending_issue(skill, verdict))
            elif skill.uri in served:
                text = f"{skill.place} is left out: {served[skill.uri].place} has the same path"
                issues.append(Issue("warning", "names", "SKILL_PATH_CLASH", text))
            else:
                served[skill.uri] = skill
        issues += _same_names(served.values())
        skills = tuple(served[uri] for uri in sorted(served))
        files = {file.uri: file for skill in skills for file in skill.files}
        waiting = {uri: name for uri, name in pending.items() if uri not in served}
        return SkillSnapshot(skills, files, waiting, tuple(items), tuple(issues))

    def _pending_issue(self, skill: Skill, verdict: str) -> Issue:
        why = "has changed since it was trusted" if verdict == "changed" else "was never trusted"
        text = f'The skill "{skill.name}" ({skill.place}) {why}'
        return Issue("warning", "trust", "TRUST_PENDING", text, details=trust_command(self._root))

    def _shown(self, path: str) -> str:
        """A path as messages show it: relative to the workspace if it is inside."""
        return clean_text(path.removeprefix(f"{self._root}{os.sep}"))


def _verdicts(readings: Sequence[tuple[_Owner, Reading]]) -> Mapping[str, Verdict]:
    readings_of_projects = [
        (owner.trust, reading.skill)
        for owner, reading in readings
        if owner.trust is not None and reading.skill is not None
    ]
    if not readings_of_projects:
        return {}
    return readings_of_projects[0][0]({skill.key: skill.trust_digest for _, skill in readings_of_projects})


def _walk_issues(skipped: Sequence[tuple[str, str]], folder_text: str, *, complete: bool) -> Iterator[Issue]:
    for relative, reason in skipped:
        place = f"{folder_text}/{clean_text(relative)}" if relative else folder_text
        yield Issue("warning", "skill", INVALID, f"{place} is left out: {reason}")
    if not complete:
        text = f"{folder_text} has more skills, files or bytes than are read; the rest is left out"
        yield Issue("error", "skill", "SKILLS_TRUNCATED", text)


def _same_names(skills: Iterable[Skill]) -> list[Issue]:
    """Issues about skills with the same name at different URIs; all of them are served."""
    by_name: dict[str, list[str]] = {}
    for skill in skills:
        by_name.setdefault(skill.name, []).append(skill.uri)
    return [
        Issue(
            "warning",
            "names",
            "SKILL_NAME_SHARED",
            f'Several skills are named "{name}", and all of them are served: {", ".join(uris[:5])}',
        )
        for name, uris in by_name.items()
        if len(uris) > 1
    ]
