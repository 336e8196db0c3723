"""Estimates how many tokens of a model a text has. Pure.

The weights were measured with the vocabularies cl100k and o200k on 21 texts. English prose, code, JSON,
tool definitions and Markdown come out within 15 %, dense listings up to 25 % too low, other alphabets between
16 % too low and twice too high. Each model has its own vocabulary.
"""

from __future__ import annotations

import string
from typing import Final

_WEIGHTS: Final[tuple[tuple[bytes, float], ...]] = (
    (string.ascii_letters.encode(), 0.26),
    (string.digits.encode(), 0.85),
    (string.punctuation.encode(), 0.4),
    (b" \t", 0.04),
    (b"\n\r", 0.6),
)
_OTHER_WEIGHT: Final = 0.36
"""Tokens for a byte of a character beyond ASCII."""


def text_tokens(text: str) -> float:
    """The tokens of a text."""
    content = text.encode("utf-8", "surrogatepass")
    rest = len(content)
    tokens = 0.0
    for letters, weight in _WEIGHTS:
        count = len(content) - len(content.translate(None, letters))
        rest -= count
        tokens += count * weight
    return tokens + rest * _OTHER_WEIGHT
