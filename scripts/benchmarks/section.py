"""The result of a section: text for people, data for a file, figures for the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """The result of one section. `figures` has the names of `targets.py`; `is_single`: one run, no rounds."""

    name: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_single: bool = False
