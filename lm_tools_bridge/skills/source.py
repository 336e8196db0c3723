"""Offers the skills of the project and of the user as MCP resources, by a source that has no tools.

The files are checked for requests about resources and skills, not for calls of tools. The toolset checks them
for clients that wait for change notifications.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as extension
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.protocol.skills_extension import SCHEME
from lm_tools_bridge.skills.catalog import SkillCatalog, SkillSnapshot, Trust
from lm_tools_bridge.skills.reading import Skill, SkillFile, Unreadable, as_text, content_of
from workspace_server.call_context import CallContext
from workspace_server.files.single_flight import SingleFlight
from workspace_server.results import clean_text
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, Entry, RpcError, SourceOfferings, Tool, ToolError
from workspace_server.trust.item import trust_command

DIRECTORY: Final = "inode/directory"


def skill_entry(skill: Skill) -> dict[str, Any]:
    """The `Skill` object of `skills/list` and `skills/get`."""
    return {
        "uri": skill.uri,
        "frontmatter": skill.front_matter,
        "resources": [
            {"uri": file.uri, "digest": f"sha256:{file.digest}", "size": file.size} for file in skill.files
        ],
    }


def resource(skill: Skill, file: SkillFile) -> dict[str, Any]:
    """The `Resource` object of a file; a `SKILL.md` has the name and description of its skill."""
    about = {"uri": file.uri, "name": file.name.rpartition("/")[2]}
    if file.uri == skill.uri:
        description = clean_text(str(skill.front_matter["description"]))
        about = {"uri": file.uri, "name": skill.name, "description": description}
    return {**about, "mimeType": file.mime_type, "size": file.size}


def contents(file: SkillFile, content: bytes) -> dict[str, Any]:
    """The `contents` of `resources/read`: text where the bytes are text, so that their digest stays."""
    text = as_text(content)
    body = {"blob": base64.b64encode(content).decode("ascii")} if text is None else {"text": text}
    return {"contents": [{"uri": file.uri, "mimeType": file.mime_type, **body}]}


def directories(skills: Sequence[Skill]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The direct children of every folder, as `Resource` objects sorted by URI, by the folder's URI."""
    children: dict[str, dict[str, Mapping[str, Any]]] = {}
    for skill in sorted(skills, key=lambda entry: len(entry.uri), reverse=True):  # a nested skill first
        for file in skill.files:
            parent = file.uri.rpartition("/")[0]
            children.setdefault(parent, {}).setdefault(file.uri, resource(skill, file))
            _add_folders(parent, children)
    return {folder: [below[uri] for uri in sorted(below)] for folder, below in children.items()}


def _add_folders(folder: str, children: dict[str, dict[str, Mapping[str, Any]]]) -> None:
    """Enter a folder, and all above it, as children of the folders above."""
    while "/" in folder.removeprefix(SCHEME):
        above, _, name = folder.rpartition("/")
        siblings = children.setdefault(above, {})
        if folder in siblings:
            return
        siblings[folder] = {"uri": folder, "name": name, "mimeType": DIRECTORY}
        folder = above


CHECK_S: Final = 5.0
"""Longest time that a request waits for a check of the files; then the last result is used."""
_TRIES: Final = 2
"""The second time after a new check of the files: a skill may have changed since they were looked at."""
_NO_TOOLS: Final[tuple[Tool, ...]] = ()


class SkillSource(Source):
    """The skills of one workspace.

    Args:
        root: the workspace, without symbolic links.
        trust: decides which skills of the project may be served.
        own: the user's folders of skills.
        check_s: see `CHECK_S`.
    """

    id = "skills"
    kind = "skill"
    known_until = math.inf  # it has no tools

    def __init__(self, root: Path, trust: Trust, own: Sequence[Path], *, check_s: float = CHECK_S) -> None:
        self._root = root
        self._catalog = SkillCatalog(root, trust, own)
        self._checks = SingleFlight(self._catalog.look)
        self._check_s = check_s
        self._last = SkillSnapshot()
        self._offered = SourceOfferings()
        self._directories: Mapping[str, Sequence[Mapping[str, Any]]] = {}
        self._is_checked = False
        self._is_late = False
        self._subscribers: list[tuple[str, Callable[[str], None]]] = []

    async def list_tools(self) -> Sequence[Tool]:
        """No tools. The first call checks the files, so that the first lists are complete."""
        if not self._is_checked:
            await self.check_files()
        return _NO_TOOLS

    def cached_tools(self) -> Sequence[Tool] | None:
        """No tools; None before the first check."""
        return _NO_TOOLS if self._is_checked else None

    async def check_files(self) -> None:
        """Check the files and their trust now (see `Source.check_files`)."""
        try:
            async with asyncio.timeout(self._check_s):
                snapshot = await self._checks.get()
        except TimeoutError:
            was_late, self._is_late = self._is_late, True
            self.revision += not was_late
        else:
            self._take(snapshot)
        self._is_checked = True

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """It has no tools."""
        raise ToolError(f"there is no tool {name}")

    def offerings(self) -> SourceOfferings:
        """The skills, and their `SKILL.md` as resources. Other files are read by their URIs."""
        return self._offered

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        """Answer `resources/read` of a file, and `skills/get`; without members such as `resultType`."""
        uri = jsonrpc.text_of(params["uri"]) if "uri" in params else None
        if method == names.RESOURCES_READ:
            return await self._read(uri or "")
        if method == extension.GET:
            skill = next((candidate for candidate in self._last.skills if candidate.uri == uri), None)
            return self._not_served(uri or "") if skill is None else _entry_of(skill)
        return await super().forward(method, params, context)

    def directory(self, uri: str) -> Sequence[Mapping[str, Any]] | None:
        """See `Source.directory`."""
        return self._directories.get(uri)

    def pending_names(self) -> Sequence[str]:
        """The names of skills that wait for trust."""
        return sorted(set(self._last.pending.values()))

    async def subscribe(self, uri: str, listener: Callable[[str], None]) -> Callable[[], None] | None:
        """Report changes of a file that is served now."""
        if uri not in self._last.files:
            return None
        entry = (uri, listener)
        self._subscribers.append(entry)
        return lambda: self._subscribers.remove(entry)

    async def refresh(self) -> None:
        """Check the files now."""
        await self.check_files()
        self.notify_changed()

    def issues(self) -> Sequence[Issue]:
        """The problems that the last check found."""
        late = Issue("error", "skill", "SKILLS_NOT_CHECKED", "The folders of skills do not answer in time")
        return (late, *self._last.issues) if self._is_late else self._last.issues

    def status(self) -> Mapping[str, Any]:
        """How many skills are served, and how many wait for trust."""
        return {"skillCount": len(self._last.skills), "pendingSkillCount": len(self._last.pending)}

    async def close(self) -> None:
        """Wait a moment for a check that is running."""
        await self._checks.close()

    def _take(self, snapshot: SkillSnapshot) -> None:
        before, was_late = self._last, self._is_late
        self._last, self._is_late = snapshot, False
        if snapshot is before and not was_late:
            return
        self.revision += 1
        if snapshot is before:
            return
        self._directories = directories(snapshot.skills)
        entries = []
        for skill in snapshot.skills:
            main = next(file for file in skill.files if file.uri == skill.uri)
            entries.append(Entry(skill.uri, resource(skill, main), skill.uri))
        skills = tuple(Entry(entry.uri, skill_entry(entry), entry.uri) for entry in snapshot.skills)
        self._offered = SourceOfferings(resources=tuple(entries), skills=skills)
        self._report_changes(before, snapshot)

    def _report_changes(self, before: SkillSnapshot, now: SkillSnapshot) -> None:
        for uri, listener in tuple(self._subscribers):
            if _digest(before.files.get(uri)) != _digest(now.files.get(uri)):
                listener(uri)

    async def _read(self, uri: str) -> CallOutcome:
        reason = ""
        for attempt in range(_TRIES):
            if attempt:
                await self.check_files()
            file = self._last.files.get(uri)
            if file is None:
                return self._not_served(uri)
            try:
                content = await asyncio.to_thread(content_of, file)
            except Unreadable as error:
                reason = str(error)
                continue
            return jsonrpc.raw(contents(file, content))
        return RpcError(jsonrpc.INTERNAL_ERROR, f"{uri} cannot be read: {reason}")

    def _not_served(self, uri: str) -> RpcError:
        text = f"No skill is served at {uri}"
        if any(
            uri.startswith(uri_of_pending.rpartition("/")[0] + "/") for uri_of_pending in self._last.pending
        ):
            text = f"{text} before the user trusts it. Ask the user to run: {trust_command(self._root)}"
        return RpcError(jsonrpc.INVALID_PARAMS, text, jsonrpc.raw({"uri": uri}))


def _entry_of(skill: Skill) -> msgspec.Raw:
    return jsonrpc.raw({"skill": skill_entry(skill)})


def _digest(file: SkillFile | None) -> str | None:
    return None if file is None else file.digest
