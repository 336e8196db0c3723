"""Lists the cases of the section `hop`: eras, forms and sizes of results, connections. Pure."""

from __future__ import annotations

from dataclasses import dataclass

REVISION = "2025-11-25"
MODERN = "2026-07-28"
ERAS = ("modern", "legacy")
FORMS = ("json", "sse")
READ = ("json-read", "sse-read")
"""The same forms from servers that announce no result trim, so that the manager has to parse the results."""
SIZES = {"200B": 200, "10KB": 10_000, "1MB": 1_000_000}
"""Bytes of a result. Every call sends 200 B."""
CONNECTIONS = {"200B": (1, 16, 128), "10KB": (1, 16, 128), "1MB": (1, 4)}
"""Fewer for large results: a hundred of them at once would measure the memory of the machine."""


@dataclass(frozen=True)
class Case:
    """One row of the table: era, form and size of the answer, and number of connections."""

    era: str
    form: str
    size: str
    connections: int

    @property
    def label(self) -> str:
        """The name of the case in tables."""
        return f"{self.era} {self.form} {self.size} c={self.connections}"

    @property
    def tool(self) -> str:
        """The name of the tool that answers in this size and form."""
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
