"""The issues of configuration files: who says what about which file and entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from protocol.issues import Issue, Level
from workspace_server.config.formats.jsonc import ConfigFileError
from workspace_server.results import clean_text

CATEGORY: Final = "config"
MAX_NOTES: Final = 200
"""More issues than this about one file help nobody."""
_MAX_NAME: Final = 120


@dataclass(slots=True)
class FileIssues:
    """Collects what is wrong with one file. `file` is its name as a person knows it.

    No value of a file is ever part of an issue: it may be a secret.
    """

    file: str
    issues: list[Issue] = field(default_factory=list)

    def warn(self, code: str, message: str, entry: str | None = None) -> None:
        """Add a warning about the file, or about one entry of it."""
        self._add("warning", code, message, entry)

    def error(self, code: str, message: str, entry: str | None = None) -> None:
        """Add an error likewise."""
        self._add("error", code, message, entry)

    def unreadable(self, problem: ConfigFileError) -> None:
        """Add the issue of a file that cannot be read."""
        line = "" if problem.line is None else f", line {problem.line}"
        message = f"{self.file}{line}: {problem.reason}; what it said last stays in force"
        issue = Issue("error", CATEGORY, "CONFIG_UNREADABLE", message, details=f"{self.file}{line}")
        self.issues.append(issue)

    def _add(self, level: Level, code: str, message: str, entry: str | None) -> None:
        place = self.file if entry is None else f'{self.file}, entry "{display_name(entry)}"'
        if len(self.issues) < MAX_NOTES:
            self.issues.append(Issue(level, CATEGORY, code, f"{place}: {message}", details=place))


def display_name(text: str) -> str:
    """A name out of a file as an issue shows it: clean, on one line, not too long."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 1] + "…"
