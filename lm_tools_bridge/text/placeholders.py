"""Expands placeholders in configuration files of this program and of clients. Pure.

`PlaceholderValues` expands what a workspace server reads, by the rules of the client that a file belongs to.
`expand_texts` expands what a client reads, as that client does. `missing_variables_in` finds the variables
that a program asked for and did not get, and `passing_on` writes the placeholders for them.

| written | TOML | `.mcp.json` | `.vscode/mcp.json`, `.cursor/mcp.json` |
|---|---|---|---|
| `${workspaceFolder}`, `…Basename`, `${userHome}`, `${cwd}`, `${pathSeparator}`, `${/}` | yes | yes | yes |
| `${env:X}` | yes | yes | yes |
| `${X}`, `${X:-default}` | yes | yes | not expanded, as in those clients |
| `~` and `~/…` in commands and folders | yes | no | yes |
| `${input:x}`, `${command:x}`, `${config:x}` | no value: only an editor has one | no value | no value |
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

_BRACE: Final = re.compile(r"[{}]")
MAX_DEPTH: Final = 16
"""Defaults that stand in defaults. A limit, because a hostile file could nest thousands."""
_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_DEFAULT: Final = r"(?::-(?P<default>[^}]*))?"
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_BARE_VARIABLE: Final = re.compile(rf"\$\{{{_NAME}{_DEFAULT}\}}")
_FIXED_NAMES: Final = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "cwd", "pathSeparator"}
)
"""They have the same meaning in every file, whatever its rules."""
_ROOT_VARIABLES: Final = ("PWD", "CLAUDE_PROJECT_DIR")
_ONLY_EDITORS: Final = ("input:", "command:", "config:", "extensionInstallFolder:")
_EDITORS_PLACEHOLDER: Final = re.compile(rf"\$\{{(?:{'|'.join(_ONLY_EDITORS)})[^}}]*\}}?")
_OPEN_FILE: Final = frozenset({
    "file", "fileWorkspaceFolder", "relativeFile", "relativeFileDirname", "fileBasename", "fileExtname",
    "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename", "lineNumber", "columnNumber",
    "selectedText", "execPath", "defaultBuildTask",
})  # fmt: skip


class UnresolvedPlaceholderError(Exception):
    """A placeholder without a value; the message is its name, e.g. `TOKEN` or `input:key`.

    `is_variable`: it names an environment variable, so the user can set it.
    """

    def __init__(self, name: str, *, is_variable: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.is_variable = is_variable


class PlaceholderRules(NamedTuple):
    """What a client expands. `bare`: `${X}` and `${X:-default}`; `tilde`: a leading `~`."""

    bare: bool
    tilde: bool


TOML: Final = PlaceholderRules(bare=True, tilde=True)
"""The rules of `workspace.toml`. Those of clients' files are in `protocol/internal/client_files.py`."""


class PlaceholderValues(NamedTuple):
    """The values of placeholders in one workspace. `environ` is this process's environment."""

    root: Path
    environ: Mapping[str, str]

    @property
    def home(self) -> str | None:
        """The user's home folder; None if the environment does not name it."""
        return self.environ.get("HOME") or self.environ.get("USERPROFILE")

    def expand(self, text: str, rules: PlaceholderRules) -> str:
        """`text` with its placeholders replaced; values are not expanded again.

        Raises:
            UnresolvedPlaceholderError: a placeholder has no value.
        """
        return self._expand(text, rules, 0)

    def defaulted(self, text: str, rules: PlaceholderRules) -> tuple[str, ...]:
        """The variables in `text` that are not set and have a default (`${X:-default}`)."""
        if not rules.bare or ":-" not in text:
            return ()
        names: list[str] = []
        waiting = [text]
        while waiting and len(names) <= MAX_DEPTH:
            part = waiting.pop()
            for start, end in _spans(part):
                variable = _VARIABLE.fullmatch(part, start + 2, end)
                if variable is None or variable[2] is None:
                    continue
                if variable[1] not in self.environ and variable[1] not in _ROOT_VARIABLES:
                    names.append(variable[1])
                    waiting.append(variable[2])
        return tuple(names)

    def expand_path(self, text: str, rules: PlaceholderRules) -> str:
        """`text` as `expand` returns it, with a leading `~` expanded if the client does so.

        Raises:
            UnresolvedPlaceholderError: a placeholder has no value.
        """
        if rules.tilde and (text == "~" or text.startswith("~/")):
            if self.home is None:
                raise UnresolvedPlaceholderError("userHome")
            return self.home + self.expand(text[1:], rules)
        return self.expand(text, rules)

    def _expand(self, text: str, rules: PlaceholderRules, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise UnresolvedPlaceholderError(f"a default {MAX_DEPTH} levels deep")
        parts, done = [], 0
        for start, end in _spans(text):
            parts += [text[done:start], self._value(text[start + 2 : end], rules, depth)]
            done = end + 1
        return "".join(parts) + text[done:]

    def _value(self, name: str, rules: PlaceholderRules, depth: int) -> str:
        fixed = self._fixed(name)
        if fixed is not None:
            return fixed
        if name.startswith("env:"):
            return self._environment(name[4:])
        if name.startswith(_ONLY_EDITORS) or (not rules.bare and name in _OPEN_FILE):
            raise UnresolvedPlaceholderError(name)
        match = _VARIABLE.fullmatch(name) if rules.bare else None
        if match is None:
            return "${" + name + "}"
        if match[2] is None:
            return self._environment(match[1])
        try:
            return self._environment(match[1])
        except UnresolvedPlaceholderError:
            return self._expand(match[2], rules, depth + 1)

    def _fixed(self, name: str) -> str | None:
        root = os.fspath(self.root)
        head, colon, folder = name.partition(":")
        if head in ("workspaceFolder", "workspaceFolderBasename") and colon:
            if folder != self.root.name:
                raise UnresolvedPlaceholderError(name)
            name = head
        if name == "userHome":
            if self.home is None:
                raise UnresolvedPlaceholderError(name)
            return self.home
        values = {
            "workspaceFolder": root,
            "workspaceFolderBasename": self.root.name,
            "cwd": root,
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        return values.get(name)

    def _environment(self, name: str) -> str:
        # clients set these for the servers they start
        if name in _ROOT_VARIABLES:
            return os.fspath(self.root)
        if name not in self.environ:
            raise UnresolvedPlaceholderError(name, is_variable=True)
        return self.environ[name]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the outermost placeholders `${…}` begin, and where their last brace is. Linear in the text."""
    if "${" not in text:
        return
    opened: list[int] = []
    closes: dict[int, int] = {}
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closes[opened.pop()] = brace.start()
    start = text.find("${")
    while start >= 0:
        end = closes.get(start + 1)
        if end is not None:
            yield start, end
        start = text.find("${", start + 2 if end is None else end + 1)


def find_editor_placeholder(text: str) -> str | None:
    """The first placeholder of a text that only an editor has a value for; None if there is none."""
    match = _EDITORS_PLACEHOLDER.search(text)
    return None if match is None else match[0]


def list_bare_variables(text: str) -> list[str]:
    """The variables of a text that are written `${X}` or `${X:-default}`."""
    return [match[0] for match in _BARE_VARIABLE.finditer(text) if match[0][2:-1] not in _FIXED_NAMES]


# How clients write variables. A match has the groups `name` and `default`, and may have `bare` for a name
# without braces, and `editor` for what only an editor knows.
BRACED: Final = _BARE_VARIABLE
DOLLAR: Final = re.compile(rf"\$(?:\{{{_NAME}{_DEFAULT}\}}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))")
ENV_IN_BRACES: Final = re.compile(r"\{env:(?P<name>[^}]+)\}(?P<default>(?!))?")
EDITOR: Final = re.compile(
    r"\$\{(?:env:(?P<name>[^}]+)|(?P<editor>workspaceFolder|userHome))\}(?P<default>(?!))?"
)


class Expanded(NamedTuple):
    """A value with its variables replaced, and the names of those that are not set."""

    value: Any
    unset: tuple[str, ...]


def expand_texts(
    value: Any, variable: re.Pattern[str] | None, environ: Mapping[str, str], folder: str | None
) -> Expanded:
    """A value as a client uses it. A variable that is not set stays as it is written.

    Args:
        value: an entry or a part of it.
        variable: how the client writes variables; None if it has none.
        environ: its environment.
        folder: the project in which it works; None in a user's file, where editors have no project.
    """
    unset: list[str] = []

    def replace_variable(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("editor"):
            text = {"workspaceFolder": folder, "userHome": environ.get("HOME")}[groups["editor"]]
        else:
            text = environ.get(groups["name"] or groups.get("bare") or "", groups["default"])
        if text is None:
            unset.append(match[0])
            return match[0]
        return text

    if variable is None:
        return Expanded(value, ())
    expanded = map_texts(value, lambda text: variable.sub(replace_variable, text))
    return Expanded(expanded, tuple(dict.fromkeys(unset)))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A decoded JSON or TOML value with each of its texts changed; names of members stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value


# More in one message are no hint any more, but a dump of the program's documentation.
MAX_NAMES: Final = 5
# Variables of services have several words (`GITHUB_TOKEN`); single words are mostly something else.
_SERVICE_VARIABLE: Final = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_])")


def missing_variables_in(lines: Iterable[str], got: Collection[str]) -> list[str]:
    """The names of variables in what a program wrote, without those that it got; at most `MAX_NAMES`."""
    names = dict.fromkeys(name for line in lines for name in _SERVICE_VARIABLE.findall(line))
    return [name for name in names if name not in got][:MAX_NAMES]


def passing_on(names: Iterable[str], *, as_json: bool = False) -> str:
    """The line of a server's entry that passes these variables on."""
    if as_json:
        members = (f'"{name}": "${{{name}}}"' for name in names)
        return '"env": {' + ", ".join(members) + "}"
    return "env = { " + ", ".join(f'{name} = "${{{name}}}"' for name in names) + " }"
