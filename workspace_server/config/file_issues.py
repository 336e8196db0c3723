"""Collects the issues of one configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lm_tools_bridge.protocol.issues import Issue, Level
from lm_tools_bridge.text.toml_text import line_of
from workspace_server.config.formats.jsonc import ConfigFileError
from workspace_server.results import clean_text

CATEGORY: Final = "config"
MAX_NOTES: Final = 200
"""Limit of issues per file."""
# Bytes of a file in which the line of a key is looked for: the search costs more than reading the file.
_MAX_SEARCHED: Final = 256 * 1024
# Names are written by anybody: these keep an issue readable in a list.
_MAX_NAME: Final = 120
_MAX_NAMES: Final = 10


@dataclass(slots=True)
class FileIssues:
    """The issues of one file. `file` is the file's name as shown to the user, `content` its bytes.

    Issues never quote values of the file, which may be secrets.
    """

    file: str
    content: bytes = field(default=b"", repr=False)
    issues: list[Issue] = field(default_factory=list)

    def warn(self, code: str, message: str, entry: str | None = None, *, key: str | None = None) -> None:
        """Add a warning about the file, one entry of it, or the line of a key."""
        self._add("warning", code, message, entry, key)

    def error(self, code: str, message: str, entry: str | None = None, *, key: str | None = None) -> None:
        """Add an error about the file, one entry of it, or the line of a key."""
        self._add("error", code, message, entry, key)

    def unreadable(self, problem: ConfigFileError) -> None:
        """Add the issue of a file that cannot be read."""
        place = f"{self.file}{problem.place}"
        effect = "its last valid content stays in force" if self.content else "nothing of it is used"
        message = f"{place}: {problem.reason}; {effect}"
        issue = Issue("error", CATEGORY, "CONFIG_UNREADABLE", message, details=place)
        self.issues.append(issue)

    def _add(self, level: Level, code: str, message: str, entry: str | None, key: str | None) -> None:
        if len(self.issues) >= MAX_NOTES:
            return
        place = self.file if entry is None else f'{self.file}, entry "{display_name(entry)}"'
        if (key or entry) and (line := self._line_of(key or "", entry)) is not None:
            place += f", line {line}"
        self.issues.append(Issue(level, CATEGORY, code, f"{place}: {message}", details=place))

    def _line_of(self, key: str, entry: str | None) -> int | None:
        """The line of a key; none in a file so long that looking for every key would take long."""
        return line_of(self.content, key, entry) if len(self.content) <= _MAX_SEARCHED else None


def display_name(text: str) -> str:
    """A name from a file for an issue: cleaned, on one line, at most 120 characters."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 1] + "…"


def display_names(texts: Sequence[str]) -> str:
    """The first ten names for an issue, and how many more there are."""
    names = ", ".join(map(display_name, texts[:_MAX_NAMES]))
    return names if len(texts) <= _MAX_NAMES else f"{names} and {len(texts) - _MAX_NAMES} more"
