"""Which tools a program of the user wants to see. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A choice among tools by name; as it is made, user-visible and enabled ones.

    Attributes:
        internal: whether internal tools may pass.
        disabled: whether tools that are not enabled may pass.
        exclude: names that never pass.
        include: if not None, only these names pass; an empty set lets nothing through.
    """

    internal: bool = False
    disabled: bool = False
    exclude: frozenset[str] = frozenset()
    include: frozenset[str] | None = None

    @classmethod
    def all(cls) -> ToolFilter:
        """Internal and disabled tools, too."""
        return cls(internal=True, disabled=True)

    def with_internal(self) -> ToolFilter:
        """The same, and internal tools."""
        return replace(self, internal=True)

    def with_exclude(self, names: Iterable[str]) -> ToolFilter:
        """The same without these names."""
        return replace(self, exclude=self.exclude | frozenset(names))

    def with_include(self, names: Iterable[str]) -> ToolFilter:
        """The same, but of these names only."""
        return replace(self, include=(self.include or frozenset()) | frozenset(names))

    def passes(self, name: str, *, internal: bool = False, enabled: bool = True) -> bool:
        """Whether a tool passes; asked in this order: internal, enabled, exclude, include."""
        if internal and not self.internal:
            return False
        if not enabled and not self.disabled:
            return False
        return name not in self.exclude and (self.include is None or name in self.include)
