"""Builds one script tool from the files of its folder: definition, trust item and program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from workspace_server.results import clean_text
from workspace_server.sources.scripts.definition import manifest as manifests
from workspace_server.sources.scripts.definition import schema
from workspace_server.sources.scripts.definition.bundle import Bundle
from workspace_server.sources.scripts.definition.folders import MANIFEST
from workspace_server.sources.scripts.definition.manifest import InvalidManifest, Manifest
from workspace_server.sources.scripts.definition.parameters import ManifestError
from workspace_server.sources.scripts.definition.program import Program, program
from workspace_server.tool import Tool
from workspace_server.trust.item import TrustItem

Libraries = Mapping[str, Bundle]
"""What scripts may import beside their own files: bundles by the path that messages show."""


@dataclass(frozen=True, slots=True)
class Script:
    """One tool that is in order: what it says, all its bytes, and what consent to it is for."""

    folder: str
    manifest: Manifest
    bundle: Bundle
    program: Program
    libraries: tuple[Bundle, ...]
    item: TrustItem
    tool: Tool

    def is_same(self, other: Script) -> bool:
        """Whether the same bytes would run."""
        return self.item.digest() == other.item.digest()


def script(
    folder: str, shown: str, bundle: Bundle, libraries: Libraries, *, of_workspace: bool
) -> Script | InvalidManifest:
    """The tool that a folder's files are, or the reason why they are none.

    Args:
        folder: its absolute path.
        shown: the same as messages show it; with `script:` in front, the key of the consent.
        bundle: its files.
        libraries: what its script may import beside them.
        of_workspace: whether it came with a project.
    """
    name = bundle.find(MANIFEST)
    if name is None:
        return InvalidManifest(f"{MANIFEST} is no file of this folder")
    manifest = manifests.parse(bundle.contents[name], PurePosixPath(folder).name, of_workspace=of_workspace)
    if isinstance(manifest, InvalidManifest):
        return manifest
    try:
        runs = program(bundle, manifest.script)
    except ManifestError as bad:
        return InvalidManifest(str(bad))
    usable = libraries if runs.is_python else {}
    item = _item(shown, manifest, bundle, runs, usable)
    tool = schema.tool(manifest, item.digest())
    return Script(folder, manifest, bundle, runs, tuple(usable.values()), item, tool)


def _item(shown: str, manifest: Manifest, bundle: Bundle, runs: Program, libraries: Libraries) -> TrustItem:
    files = dict(bundle.files)
    for place, library in libraries.items():
        # in front a slash, which no name of the tool's own files has
        files |= {f"/{place}/{name}": content for name, content in library.files.items()}
    title = f"script tool {manifest.name}: {shown} ({len(bundle.files)} files)"
    facts = {"folder": shown, "interpreter": _followed(runs.interpreter)}
    return TrustItem(f"script:{shown}", title, facts, files)


def _followed(interpreter: Sequence[str]) -> list[str]:
    """A `#!` line and where its program really is, so that a link that is turned is noticed."""
    if not interpreter:
        return []
    try:
        return [*interpreter, str(Path(interpreter[0]).resolve())]
    except (OSError, RuntimeError):
        return list(interpreter)


def shown(path: str | Path, root: Path) -> str:
    """A path as messages show it: relative to the workspace where it lies in there."""
    text, above = str(path), f"{root}/"
    return clean_text(text.removeprefix(above))
