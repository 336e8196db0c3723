"""What is called: the rows of the tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass

REVISION = "2025-11-25"
MODERN = "2026-07-28"
ERAS = ("modern", "legacy")
FORMS = ("json", "sse")
READ = ("json-read", "sse-read")
"""The same of servers that do not say what of a result a session does not get: those have to be read."""
SIZES = {"200B": 200, "10KB": 10_000, "1MB": 1_000_000}
"""Of results. Calls send 200 B always."""
CONNECTIONS = {"200B": (1, 16, 128), "10KB": (1, 16, 128), "1MB": (1, 4)}
"""A hundred large answers at once would measure the memory of the machine."""


@dataclass(frozen=True)
class Case:
    """One row: which era, in which form the answer comes, how large it is, over how many connections."""

    era: str
    form: str
    size: str
    connections: int

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.era} {self.form} {self.size} c={self.connections}"

    @property
    def tool(self) -> str:
        """The tool whose answer it is."""
        return f"{self.size}.{self.form}"


ALL = tuple(
    Case(era, form, size, number)
    for size in SIZES
    for form in FORMS
    for era in ERAS
    for number in CONNECTIONS[size]
) + tuple(
    Case(era, form, size, number)
    for size, number in (("10KB", 16), ("1MB", 4))
    for form in READ
    for era in ERAS
)
QUICK = (
    *(Case(era, "json", "200B", number) for number in (1, 16) for era in ERAS),
    Case("legacy", "json", "10KB", 16),
    Case("modern", "sse", "1MB", 4),
)
