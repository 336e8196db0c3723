"""Builds one script tool from the files of its folder: definition, trust item and program.

Python is started by our interpreter, anything else directly and never by a shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from workspace_server.results import clean_text
from workspace_server.sources.scripts import manifest as manifests
from workspace_server.sources.scripts.bundle import Bundle
from workspace_server.sources.scripts.folders import MANIFEST
from workspace_server.sources.scripts.manifest import InvalidManifest, Manifest
from workspace_server.sources.scripts.parameters import ManifestError
from workspace_server.tool import Tool
from workspace_server.trust.item import TrustItem


@dataclass(frozen=True, slots=True)
class Program:
    """The file to run.

    Attributes:
        name: the file, relative to the tool's folder.
        interpreter: program and argument of the `#!` line; empty if the file itself is executable.
        is_python: whether our own Python interpreter runs the file.
    """

    name: str
    interpreter: tuple[str, ...] = ()
    is_python: bool = False


def program(bundle: Bundle, script: str) -> Program:
    """Find out how to start the `script` of a manifest.

    Raises:
        ManifestError: the file is missing or empty, or cannot be run.
    """
    name = bundle.find(script)
    if name is None:
        raise ManifestError(f"script {script} is missing in the tool's folder, or is not a file")
    content = bundle.contents[name]
    if not content:
        raise ManifestError(f"script {script} is empty")
    if PurePosixPath(script).suffix == ".py":
        return Program(name, is_python=True)
    if content.startswith(b"#!"):
        return Program(name, _interpreter(script, content))
    if b"\0" not in content[:1024]:
        raise ManifestError(
            f"script {script} is not a .py file and does not begin with #! and an interpreter"
        )
    if name not in bundle.executable:
        raise ManifestError(f"script {script} is not executable; run chmod +x on it")
    return Program(name)


def _interpreter(script: str, content: bytes) -> tuple[str, ...]:
    """Split a `#!` line as the kernel does: a program and at most one argument."""
    line = content[2:].partition(b"\n")[0]
    if line.endswith(b"\r"):
        raise ManifestError(f"the #! line of {script} ends with CR LF; write the file with LF line ends")
    try:
        words = line.decode().strip().split(maxsplit=1)
    except UnicodeDecodeError:
        raise ManifestError(f"the #! line of {script} is not UTF-8") from None
    if not words or not words[0].startswith("/") or "\0" in line.decode():
        raise ManifestError(f"the #! line of {script} must name its interpreter by an absolute path")
    if clean_text(words[0]) != words[0]:
        raise ManifestError(f"the #! line of {script} contains invisible characters")
    return tuple(words)


Libraries = Mapping[str, Bundle]
"""Bundles that scripts may import in addition to their own files, by the path shown in messages."""


@dataclass(frozen=True, slots=True)
class Script:
    """One valid script tool: its manifest, all its bytes, and the item that a user trusts."""

    folder: str
    manifest: Manifest
    bundle: Bundle
    program: Program
    libraries: tuple[Bundle, ...]
    item: TrustItem
    tool: Tool

    def is_same(self, other: Script) -> bool:
        """Whether both run the same bytes."""
        return self.item.digest() == other.item.digest()


def script(
    folder: str, shown: str, bundle: Bundle, libraries: Libraries, *, of_workspace: bool
) -> Script | InvalidManifest:
    """Build the script tool of a folder, or return why the folder is no valid tool.

    Args:
        folder: absolute path of the folder.
        shown: the path as messages show it; `script:` and this path are the key of the trust item.
        bundle: the files of the folder.
        libraries: bundles that the script may import in addition.
        of_workspace: whether the tool comes with the project.
    """
    name = bundle.find(MANIFEST)
    if name is None:
        return InvalidManifest(f"{MANIFEST} is not a file of this folder")
    manifest = manifests.parse(bundle.contents[name], PurePosixPath(folder).name, of_workspace=of_workspace)
    if isinstance(manifest, InvalidManifest):
        return manifest
    try:
        runs = program(bundle, manifest.script)
    except ManifestError as bad:
        return InvalidManifest(str(bad))
    usable = libraries if runs.is_python else {}
    item = _item(shown, manifest, bundle, runs, usable)
    tool = make_tool(manifest, item.digest())
    return Script(folder, manifest, bundle, runs, tuple(usable.values()), item, tool)


def _item(shown: str, manifest: Manifest, bundle: Bundle, runs: Program, libraries: Libraries) -> TrustItem:
    files = dict(bundle.files)
    for place, library in libraries.items():
        # a leading slash keeps these names apart from the relative names of the tool's own files
        files |= {f"/{place}/{name}": content for name, content in library.files.items()}
    title = f"script tool {manifest.name}: {shown} ({len(bundle.files)} files)"
    facts = {"folder": shown, "interpreter": _resolved(runs.interpreter)}
    return TrustItem(f"script:{shown}", title, facts, files)


def _resolved(interpreter: Sequence[str]) -> list[str]:
    """The words of a `#!` line and the real path of its program: a changed link changes the digest."""
    if not interpreter:
        return []
    try:
        return [*interpreter, str(Path(interpreter[0]).resolve())]
    except (OSError, RuntimeError):
        return list(interpreter)


def shown(path: str | Path, root: Path) -> str:
    """A path as messages show it: relative to the workspace if it is inside."""
    text, above = str(path), f"{root}/"
    return clean_text(text.removeprefix(above))


def input_schema(manifest: Manifest) -> dict[str, Any]:
    """The JSON Schema of the arguments in file order, so that the same file gives the same bytes."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in manifest.parameters},
        "additionalProperties": False,
    }
    if required := [parameter.name for parameter in manifest.parameters if parameter.required]:
        schema["required"] = required
    return schema


def make_tool(manifest: Manifest, fingerprint: str) -> Tool:
    """The tool that a manifest describes; `fingerprint` identifies the bytes that run."""
    definition: dict[str, Any] = {
        "name": manifest.name,
        "description": manifest.description,
        "inputSchema": input_schema(manifest),
    }
    if manifest.output_schema is not None:
        definition["outputSchema"] = manifest.output_schema
    if manifest.annotations is not None:
        definition["annotations"] = manifest.annotations
    return Tool(
        manifest.name,
        definition,
        manifest.visibility,
        manifest.keywords,
        timeout_s=manifest.timeout_s,
        requires_approval=manifest.requires_approval,
        rate_limited=manifest.network,
        fingerprint=fingerprint,
        task=manifest.task,
    )


def with_defaults(manifest: Manifest, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with defaults for those that the call left out."""
    defaults = {
        parameter.name: parameter.schema["default"]
        for parameter in manifest.parameters
        if "default" in parameter.schema and parameter.name not in arguments
    }
    return {**arguments, **defaults}
