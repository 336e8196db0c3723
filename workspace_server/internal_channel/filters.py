"""Filters the tool list of the internal channel by name and kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A filter of tools by name; by default it passes enabled tools that are not internal.

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
        """A copy that passes internal tools, too."""
        return replace(self, internal=True)

    def with_exclude(self, names: Iterable[str]) -> ToolFilter:
        """A copy that also excludes these names."""
        return replace(self, exclude=self.exclude | frozenset(names))

    def with_include(self, names: Iterable[str]) -> ToolFilter:
        """A copy that passes these names only, in addition to names included before."""
        return replace(self, include=(self.include or frozenset()) | frozenset(names))

    def passes(self, name: str, *, internal: bool = False, enabled: bool = True) -> bool:
        """Whether a tool passes; checks internal, enabled, exclude and include in this order."""
        if internal and not self.internal:
            return False
        if not enabled and not self.disabled:
            return False
        return name not in self.exclude and (self.include is None or name in self.include)
