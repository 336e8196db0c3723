"""How many examples a property test tries: fewer in the default suite than where everything is tested."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

DEFAULT = 25
"""Examples of a test that asks for no number, in the default suite."""
WHOLE = 100
"""The same with `--whole`."""


def examples(number: int, **options: Any) -> settings:
    """Settings of a test that tries another number: `number` with `--whole`, otherwise less in proportion."""
    tried = max(1, number * settings.default.max_examples // WHOLE)
    return settings(max_examples=tried, deadline=None, **options)
