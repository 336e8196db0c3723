"""What a section of a run hands over: text for people, data for a file, figures that targets are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """One subject, measured. `figures` by the names that `targets.py` asks for."""

    name: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
