"""Defines the result of a section: a text to print, data to save, figures to compare with the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """The result of one section. `figures`: named as in `results/targets.py`; `is_single`: one run only."""

    name: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_single: bool = False
