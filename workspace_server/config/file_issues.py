"""Collects the issues of one configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from protocol.issues import Issue, Level
from workspace_server.config.formats.jsonc import ConfigFileError
from workspace_server.results import clean_text

CATEGORY: Final = "config"
MAX_NOTES: Final = 200
"""Limit of issues per file."""
_MAX_NAME: Final = 120


@dataclass(slots=True)
class FileIssues:
    """The issues of one file. `file` is the file's name as shown to the user.

    Issues never quote values of the file, which may be secrets.
    """

    file: str
    issues: list[Issue] = field(default_factory=list)

    def warn(self, code: str, message: str, entry: str | None = None) -> None:
        """Add a warning about the file, or about one entry of it."""
        self._add("warning", code, message, entry)

    def error(self, code: str, message: str, entry: str | None = None) -> None:
        """Add an error about the file, or about one entry of it."""
        self._add("error", code, message, entry)

    def unreadable(self, problem: ConfigFileError) -> None:
        """Add the issue of a file that cannot be read."""
        line = "" if problem.line is None else f", line {problem.line}"
        message = f"{self.file}{line}: {problem.reason}; its last valid content stays in force"
        issue = Issue("error", CATEGORY, "CONFIG_UNREADABLE", message, details=f"{self.file}{line}")
        self.issues.append(issue)

    def _add(self, level: Level, code: str, message: str, entry: str | None) -> None:
        place = self.file if entry is None else f'{self.file}, entry "{display_name(entry)}"'
        if len(self.issues) < MAX_NOTES:
            self.issues.append(Issue(level, CATEGORY, code, f"{place}: {message}", details=place))


def display_name(text: str) -> str:
    """A name from a file for an issue: cleaned, on one line, at most 120 characters."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 1] + "…"
