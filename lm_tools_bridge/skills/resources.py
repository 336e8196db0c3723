"""Describes skills as MCP resources: entries, contents, and the children of folders. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol.skills_extension import SCHEME
from lm_tools_bridge.skills.reading import Skill, SkillFile, as_text
from workspace_server.results import clean_text

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
