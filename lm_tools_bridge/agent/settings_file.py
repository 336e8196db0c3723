"""Reads and changes the user's settings of the agent, and finds its project and its manager."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec

from lm_tools_bridge.agent.agent_settings import (
    FIELDS,
    KNOWN_PROVIDERS,
    MANUAL,
    AgentSettings,
    ProviderEntry,
    default,
)
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.marked_folder import marks_of
from lm_tools_bridge.machine.own_children import are_we_own_child
from lm_tools_bridge.machine.project_marks import STRONG
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.toml_edit import (
    Document,
    NotEditableError,
    append_table,
    edit_text,
    find_value,
    put_value,
    remove_value,
)
from lm_tools_bridge.text.toml_text import line_of, parse_toml

PORT_VARIABLE: Final = "LMTB_HTTP_PORT"
_PORT: Final = "http_port"
_LARGEST_PORT: Final = 65_535
"""TCP's, whose ports have 16 bits."""


def manager_endpoint(config_file: Path, environ: Mapping[str, str]) -> str:
    """The endpoint at the port of the environment, else of the file, else the default one.

    A manager whose port the system chooses (0) tells it when it is started, and so does one whose settings
    cannot be read.
    """
    port_text = environ.get(PORT_VARIABLE, "")
    port: Any = int(port_text) if port_text.isascii() and port_text.isdecimal() else _configured(config_file)
    if type(port) is not int or not 0 < port <= _LARGEST_PORT:
        return str(default("endpoint"))
    return f"http://127.0.0.1:{port}/mcp"


def _configured(config_file: Path) -> Any:
    try:
        content = private_files.read(config_file.resolve(), _LIMIT, private=False) or b""
        return parse_toml(content.decode()).get(_PORT)
    except (private_files.UnsafePathError, OSError, ValueError, RecursionError):
        return None


def project_folder(folder: Path) -> Path:
    """The nearest folder upward with a project mark, else the nearest with `.vscode`, else the folder itself.

    Never the home folder nor the root of the tree. Blocks as long as the disk does. Unlike the manager, the
    agent does not know which roots were opened before; so what it reads there needs the trust in that root.
    """
    real, home = folder.resolve(), Path.home().resolve()
    weak: Path | None = None
    for step in (step for step in (real, *real.parents)[:-1] if step != home):
        marks = marks_of(step)
        if marks & STRONG:
            return step
        if marks and weak is None:
            weak = step
    return weak or real


_TYPES: Final[Mapping[str, str]] = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "array": "a list",
    "object": "a table",
}  # fmt: skip
_BOUNDS: Final[Mapping[str, str]] = {
    ">=": "at least {}", ">": "greater than {}", "<=": "at most {}", "<": "less than {}",
}  # fmt: skip
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?: (>=|>|<=|<) ([-0-9.e]+))?(.*)")
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`\Z")


def worded_fault(error: Exception) -> str:
    """Why a value does not fit, such as `must be a whole number`.

    Args:
        error: a `msgspec.ValidationError`, or another one whose text is in words already.
    """
    text = str(error)
    place = _PLACE.search(text)
    plain = text[: place.start()] if place is not None else text
    match = _EXPECTED.match(plain)
    if match is None:
        return plain
    where = f"{place[1]} " if place is not None and place[1] else ""
    if match[2] is not None:
        return f"{where}must be {_BOUNDS[match[2]].format(match[3].removesuffix('.0'))}"
    if "matching regex" in match[4]:
        return f"{where}must be an address that begins with http:// or https://"
    if "length" in match[4]:
        return f"{where}must not be empty"
    kinds = [_TYPES[kind] for kind in match[1].split(" | ") if kind in _TYPES]
    return f"{where}must be {' or '.join(kinds)}" if kinds else plain


TABLE: Final = "agent"
_SERVERS: Final = ("mcp", "stdio_servers")
_LIMIT: Final = 1024 * 1024  # bytes: the user's file is read whole, and has a few thousand


class Loaded(NamedTuple):
    """The settings, and what could not be used of the file: one line each, with the place."""

    settings: AgentSettings
    problems: tuple[str, ...] = ()


class _Problem(NamedTuple):
    """What is wrong with a member of the table, where it is, and what holds instead."""

    name: str
    place: str
    text: str
    effect: str = ""

    def __str__(self) -> str:
        effect = f"; {self.effect}" if self.effect else ""
        return printable(f"{TABLE}.{self.name} ({self.place}): {self.text}{effect}")


class NotEditable(Exception):
    """The file cannot be changed; the message says why."""


def load(path: Path) -> Loaded:
    """Read the settings. What does not fit has its default, and is told. A missing file is an empty one."""
    try:
        content = private_files.read(path.resolve(), _LIMIT, private=False) or b""
    except (private_files.UnsafePathError, OSError) as error:
        return Loaded(AgentSettings(), (f"{path} cannot be read: {printable(error)}; the defaults hold",))
    return _loaded(path, content)


def _loaded(path: Path, content: bytes) -> Loaded:
    settings, problems = _read_settings(path, content)
    return Loaded(settings, tuple(str(problem) for problem in problems))


def _read_settings(path: Path, content: bytes) -> tuple[AgentSettings, Sequence[_Problem | str]]:
    try:
        document = parse_toml(content.decode())
    except (ValueError, RecursionError) as error:
        return AgentSettings(), (f"{path} cannot be read: {printable(error)}; the defaults hold",)
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        place = _place(path, content, TABLE, None)
        return AgentSettings(), (f"{TABLE} ({place}): must be a table; the defaults hold",)
    return _Reading(path, content).of(table)


class _Reading:
    """One reading of a table: the values that fit, and the problems of the others."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content
        self._problems: list[_Problem] = []

    def of(self, table: Mapping[str, Any]) -> tuple[AgentSettings, Sequence[_Problem]]:
        values: dict[str, Any] = {}
        for name, value in table.items():
            if name not in FIELDS:
                self._refuse(name, f"there is no such setting{did_you_mean(name, FIELDS)}")
                continue
            try:
                values[name] = self._providers(value) if name == "providers" else _checked(name, value)
            except ValueError as error:
                self._refuse(name, worded_fault(error), "the default holds")
        settings = AgentSettings(**values)
        provider_names = (*KNOWN_PROVIDERS, MANUAL, *settings.providers)
        if settings.default_provider not in provider_names:
            wrong = printable(settings.default_provider)
            self._refuse(
                "default_provider", f"there is no provider {wrong}{did_you_mean(wrong, provider_names)}"
            )
            settings = msgspec.structs.replace(settings, default_provider="ollama")
        return settings, self._problems

    def _providers(self, value: Any) -> Mapping[str, ProviderEntry]:
        if not isinstance(value, dict):
            raise ValueError("must be a table of providers")
        entries = {}
        for name, entry in value.items():
            try:
                entries[name.lower()] = msgspec.convert(entry, ProviderEntry)
            except msgspec.ValidationError as error:
                self._refuse(f"providers.{name}", worded_fault(error), "this provider is ignored")
        return entries

    def _refuse(self, name: str, text: str, effect: str = "") -> None:
        self._problems.append(_Problem(name, _place(self._path, self._content, name, TABLE), text, effect))


def _place(path: Path, content: bytes, key: str, entry: str | None) -> str:
    line = line_of(content, key, entry) or line_of(content, key)
    return str(path) if line is None else f"{path}, line {line}"


def _checked(name: str, value: Any) -> Any:
    """The value of a setting.

    Raises:
        ValueError: it does not fit; the message says why.
    """
    kind = get_args(FIELDS[name].type)[0]
    words = get_args(kind)
    if words and get_origin(kind) is not tuple and all(isinstance(word, str) for word in words):
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}{did_you_mean(str(value), words)}")
        return value
    checked_value = msgspec.convert(value, FIELDS[name].type)
    if isinstance(checked_value, float) and not math.isfinite(checked_value):
        raise ValueError("is no finite number")
    if name in {"answer_s", "context_tokens"} and checked_value is not None and checked_value <= 0:
        raise ValueError("must be greater than 0")
    return checked_value


def save(path: Path, changes: Mapping[tuple[str, ...], Any]) -> None:
    """Change members of the table; comments and everything else stay. The file is written with mode 0600.

    Args:
        path: the file; it may be missing. A link to it stays a link.
        changes: key below `[agent]`, in parts -> the new value, or None to remove it.

    Raises:
        NotEditable: the file is not TOML, its table is none, or a new value does not fit; or a program that
            we started runs this agent: a model could decide through it.
        private_files.LockTimeout, private_files.UnsafePathError, OSError: it cannot be written.
    """
    if are_we_own_child():
        raise NotEditable("a program that a server or an agent started may not change settings")
    target = path.resolve()
    private_files.make_private(target.parent)
    with private_files.locked(target.with_name(f".{target.name}.lock")):
        text = (private_files.read(target, _LIMIT, private=False) or b"").decode("utf-8", "strict")
        try:
            content = edit_text(text, partial(_apply, changes)).encode()
        except NotEditableError as error:
            raise NotEditable(f"{path} cannot be changed: {printable(error)}") from error
        for problem in _read_settings(path, content)[1]:
            if not isinstance(problem, _Problem):
                raise NotEditable(problem)
            if _is_about(problem.name, changes):
                raise NotEditable(printable(f"{problem.name}: {problem.text}"))
        private_files.write(target, content)


def _is_about(name: str, changes: Mapping[tuple[str, ...], Any]) -> bool:
    return any(name in {key[0], ".".join(key[:2])} for key in changes)


def _apply(changes: Mapping[tuple[str, ...], Any], document: Document) -> None:
    for key, value in changes.items():
        if value is None:
            remove_value(document, (TABLE, *key), prune=False)
        else:
            put_value(document, (TABLE, *key), value)


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A stdio server, as an entry of `workspace.toml`."""

    namespace: str
    command: tuple[str, ...]
    enabled: bool


def add_servers(file: Path, servers: Sequence[StdioServer]) -> list[str]:
    """Add entries to the user's `workspace.toml`; the names of those that it did not have. Blocks.

    Raises:
        NotEditable: the file is not TOML.
        private_files.LockTimeout, private_files.UnsafePathError, OSError: it cannot be written.
    """
    if not servers:
        return []
    target = file.resolve()
    private_files.make_private(target.parent)
    with private_files.locked(target.with_name(f".{target.name}.lock")):
        text = (private_files.read(target, _LIMIT, private=False) or b"").decode("utf-8", "strict")
        try:
            present = find_value(parse_toml(text), _SERVERS) or ()
            namespaces = {str(entry.get("namespace")) for entry in present}
            new = [server for server in servers if server.namespace not in namespaces]
            written = edit_text(text, partial(_append, new))
        except (ValueError, TypeError, AttributeError) as error:  # not TOML, or no servers are in it
            raise NotEditable(f"{file} cannot be changed: {error}") from error
        private_files.write(target, written.encode())
    return [server.namespace for server in new]


def _append(servers: Sequence[StdioServer], document: Document) -> None:
    for server in servers:
        entry = {"namespace": server.namespace, "command": list(server.command)}
        append_table(document, _SERVERS, entry if server.enabled else {**entry, "enabled": False})
