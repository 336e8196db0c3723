"""Parses `tool.toml`, the manifest of a script tool. Pure.

`catalog.py` checks the script it names; `script.py` makes the schema that clients see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from lm_tools_bridge.text.near_names import did_you_mean, near
from lm_tools_bridge.text.toml_text import line_of
from workspace_server.config.formats import restrictions
from workspace_server.results import clean_text
from workspace_server.sources.scripts.folders import MAX_MANIFEST_BYTES
from workspace_server.sources.scripts.parameters import (
    KEYS,
    ManifestError,
    Parameter,
    json_value,
    one_line,
    parameters,
    quoted,
)
from workspace_server.tool import TaskUse, Visibility

# The same bounds as for servers (`config/formats/entries.py`); scripts have a shorter default, as they start
# at once.
TIMEOUT_S: Final = 60.0
_MAX_TIMEOUT_S: Final = 600
_MAX_TASK_S: Final = 24 * 3600
# Of all patterns of an output schema: compiling longer ones could take seconds.
_MAX_PATTERN_CHARACTERS: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = "LMTB_"
_FORBIDDEN: Final = frozenset({"PATH", "PYTHONPATH", "NODE_OPTIONS"})
_FORBIDDEN_PREFIXES: Final = ("LD_", "DYLD_", "GIT_")
_SHORTHANDS: Final[Mapping[str, Visibility]] = {"discoverable": "ondemand", "always_visible": "always"}
_HINTS: Final = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a valid `tool.toml`.

    Attributes:
        script: the program, relative to the tool's folder, with `/` as separator and without `..`.
        parameters: the arguments, in the order of the file.
        requires_approval: whether the user has to approve every call.
        timeout_s: longest duration of a call, in seconds.
        cwd: working folder, relative to the workspace or absolute; None for the root of the workspace.
        env: environment variables for the script.
        network: whether the script uses the network; its calls are then rate limited.
        task: whether a call may run as an MCP task, for up to a day.
        unknown: the first ten keys that are not part of the format, each with its line and the nearest one.
    """

    name: str
    description: str
    script: str
    keywords: tuple[str, ...] = ()
    visibility: Visibility = "native"
    parameters: tuple[Parameter, ...] = ()
    requires_approval: bool = False
    timeout_s: float = TIMEOUT_S
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    task: TaskUse = "forbidden"
    annotations: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidManifest:
    """Tells the author of a tool why it is invalid."""

    reason: str


def parse(content: bytes, folder_name: str, *, of_workspace: bool) -> Manifest | InvalidManifest:
    """Parse a `tool.toml`.

    Args:
        content: the bytes of the file.
        folder_name: the last part of the folder's path, used if the manifest has no `name`.
        of_workspace: whether the tool comes with a project; then it may not set all environment variables.
    """
    # most workspaces have no script tools
    from lm_tools_bridge.text.syntax_problems import toml_problem
    from lm_tools_bridge.text.toml_text import parse_toml

    if len(content) > MAX_MANIFEST_BYTES:
        return InvalidManifest(f"tool.toml is larger than {MAX_MANIFEST_BYTES >> 10} KiB")
    try:
        table = parse_toml(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return InvalidManifest("tool.toml is not UTF-8")
    except (ValueError, RecursionError) as error:
        return InvalidManifest(f"tool.toml, {toml_problem(error, content.decode('utf-8-sig')).sentence()}")
    try:
        manifest = _manifest(table, folder_name, of_workspace)
    except ManifestError as bad:
        return InvalidManifest(explained(str(bad), content, table))
    if not manifest.unknown:
        return manifest
    first_keys = manifest.unknown[:MAX_UNKNOWN]
    return replace(manifest, unknown=tuple(unknown(key, content, _KEYS) for key in first_keys))


def _manifest(table: dict[str, Any], folder_name: str, of_workspace: bool) -> Manifest:
    unknown = [key for key in table if key not in _KEYS]
    if unkept := restrictions.unkept(table, unknown):
        raise ManifestError(f"{quoted(unkept[0])} limits the tool in a way that cannot be kept; remove it")
    members = {key: read(table[key]) for key, read in _READERS.items() if key in table}
    members["parameters"] = parameters(table.get("parameters", {}), unknown)
    members["env"] = _environment(table.get("env", {}), of_workspace)
    for key in ("description", "script"):
        if key not in members:
            raise ManifestError(f"{key} is missing")
    if "name" not in members:
        members["name"] = _name(folder_name)
    longest = _MAX_TIMEOUT_S if members.get("task", "forbidden") == "forbidden" else _MAX_TASK_S
    if members.get("timeout_s", TIMEOUT_S) > longest:
        raise ManifestError(f"timeout_s must be a number from 1 to {longest}")
    return Manifest(
        **members,
        visibility=_visibility(table),
        unknown=tuple(clean_text(key)[:64] for key in unknown),
    )


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ManifestError(f"name {quoted(value)} must be 1 to 64 of A-Z a-z 0-9 _ -")
    return value


def _description(value: object) -> str:
    text = one_line(clean_text(value)) if isinstance(value, str) else ""
    if not text:
        raise ManifestError("description must be a text that is not empty")
    return text


def _keywords(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ManifestError("keywords must be an array of strings")
    return tuple(one_line(clean_text(word)) for word in value)


def _script(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ManifestError("script must be the name of a file")
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        raise ManifestError("script must lie in the tool's own folder, and be relative to it")
    return str(path)


def _flag(key: str) -> Callable[[object], bool]:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ManifestError(f"{key} must be true or false")
        return value

    return read


def _timeout(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= _MAX_TASK_S:
        raise ManifestError(f"timeout_s must be a number from 1 to {_MAX_TIMEOUT_S}")
    return float(value)


def _task(value: object) -> TaskUse:
    if value == "required":
        return "required"
    if not isinstance(value, bool):
        raise ManifestError('task must be true, false or "required"')
    return "optional" if value else "forbidden"


def _cwd(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ManifestError("cwd must be the name of a folder")
    return value


def _visibility(table: Mapping[str, Any]) -> Visibility:
    words: tuple[Visibility, ...] = ("native", "ondemand", "always")
    visibilities: set[Visibility] = set()
    if "visibility" in table:
        if table["visibility"] not in words:
            written = table["visibility"]
            hint = did_you_mean(written, words) if isinstance(written, str) else ""
            raise ManifestError(f"visibility {quoted(written)} is not one of {', '.join(words)}{hint}")
        visibilities.add(table["visibility"])
    for key, meaning in _SHORTHANDS.items():
        if _flag(key)(table.get(key, False)):
            visibilities.add(meaning)
    if len(visibilities) > 1:
        raise ManifestError("visibility, discoverable and always_visible contradict each other")
    return visibilities.pop() if visibilities else "native"


def _environment(value: object, of_workspace: bool) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ManifestError("env must be a table")
    for name, text in value.items():
        if not _VARIABLE.fullmatch(name):
            raise ManifestError(f"env: {quoted(name)} is not a valid variable name")
        if not isinstance(text, str) or "\0" in text:
            raise ManifestError(f"env.{name} must be a string")
        if name.startswith(_RESERVED):
            raise ManifestError(f"env.{name}: names beginning with {_RESERVED} are reserved")
        if of_workspace and (
            name in _FORBIDDEN or name.startswith(_FORBIDDEN_PREFIXES) or text.startswith("()")
        ):
            raise ManifestError(f"env.{name} cannot be set by a file of the workspace")
    return value


def _annotations(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError("annotations must be a table")
    for key, hint in value.items():
        if key in _HINTS and not isinstance(hint, bool):
            raise ManifestError(f"annotations.{key} must be true or false")
    if not isinstance(value.get("title", ""), str):
        raise ManifestError("annotations.title must be a string")
    plain: Mapping[str, Any] = json_value(value, "annotations")
    return plain


def _output_schema(value: object) -> Mapping[str, Any]:
    # before MCP 2026-07-28 an output schema had to be an object; older clients drop a list with another one
    if not isinstance(value, dict) or value.get("type") != "object":
        raise ManifestError('output_schema must be a JSON Schema with type = "object"')
    schema: Mapping[str, Any] = json_value(value, "output_schema")
    # few tools have an output schema
    from workspace_server.schemas.schema_limits import survey_schema
    from workspace_server.schemas.validation import validator_for

    if sum(map(len, survey_schema(schema).patterns)) > _MAX_PATTERN_CHARACTERS:
        return schema  # compiling them could take seconds, for a tool that nobody trusted yet
    try:
        validator_for(schema)
    except ValueError as error:
        raise ManifestError(f"output_schema: {one_line(clean_text(str(error)))[:200]}") from None
    return schema


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "name": _name,
    "description": _description,
    "keywords": _keywords,
    "script": _script,
    "requires_approval": _flag("requires_approval"),
    "timeout_s": _timeout,
    "cwd": _cwd,
    "network": _flag("network"),
    "task": _task,
    "annotations": _annotations,
    "output_schema": _output_schema,
}
_KEYS: Final = frozenset({*_READERS, "parameters", "env", "visibility", *_SHORTHANDS})


_ABOUT: Final = re.compile(r"([\w.-]+)(?:: (\w+))? ")
"""How a message begins that is about a key: the key, or a table and a key in it."""
# As in `config/formats/entries.py`; a longer key would make the issue unreadable.
_LIKE_A_KEY: Final = 0.75
_LONGEST: Final = 64
MAX_UNKNOWN: Final = 10
"""Unknown keys that are shown."""


def explained(message: str, content: bytes, table: Mapping[str, Any]) -> str:
    """The message of an invalid manifest, with the line of the key that it begins with."""
    about = _ABOUT.match(message)
    if about is None:
        return message
    key, inner = about.groups()
    if message == f"{key} is missing":
        misspelt = near(key, table, cutoff=_LIKE_A_KEY)
        if not misspelt:
            return message
        key, message = misspelt[0], f"{message}, but there is {_shown(misspelt[0])}"
    line = line_of(content, inner or key, key.rpartition(".")[2] if inner else None)
    return message if line is None else f"tool.toml, line {line}: {message}"


def unknown(key: str, content: bytes, known: Iterable[str]) -> str:
    """An unknown key with its line and the nearest known one."""
    table, _, last = key.rpartition(".")
    line = line_of(content, last, table.rpartition(".")[2] or None)
    place = "" if line is None else f"line {line}"
    about = f"{place}{did_you_mean(last, KEYS if table else known)}".removeprefix("; ")
    return f"{_shown(key)} ({about})" if about else _shown(key)


def _shown(key: str) -> str:
    return clean_text(key)[:_LONGEST]
