"""Hides secrets in recorded contents: by member names, by known values, by how tokens look. Pure.

A secret that looks like an ordinary word is not recognised; `docs/calls.md` says so.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from typing import Any, Final

from host.text.redaction import HIDDEN, is_secret_name, mask

MAX_TEXT: Final = 256 * 1024
"""Longest text in characters that is searched; a longer one is stored without its rest."""
_SHORTEST: Final = 20
_LEAST_BITS: Final = 3.5
"""Entropy in bits for each character from which a mixed word is taken for a token."""
_LEAST_CHANGES: Final = 0.4
"""Changes between upper case, lower case and digits for each character; names in camel case have fewer."""
_KINDS: Final = (str.isupper, str.islower, str.isdigit)
_SHORTEST_HEX: Final = 32
"""Digits from which a hexadecimal number is taken for a key."""
_NAMES_OF_OBJECTS: Final = frozenset({40, 64})
"""Lengths of git's object names, which are hexadecimal and no secrets."""
_KNOWN: Final = re.compile(
    r"(?:sk-|sk_live_|sk_test_|rk_live_|gh[pousr]_|github_pat_|glpat-|xox[abposr]-|AKIA|ASIA|AIza|ya29\.|npm_"
    r"|pypi-|lmtb_|hf_|dop_v1_|eyJ[A-Za-z0-9_-]{8,}\.)[A-Za-z0-9_\-.]{8,}"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)")
_BEARER: Final = re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9+/=_\-.~]{8,}")
_ASSIGNED: Final = re.compile(r"""([A-Za-z_][A-Za-z0-9_-]{2,40})(["']?\s*[=:]\s*["']?)([^\s"',;&]{6,})""")
_MEMBER: Final = re.compile(r'"([^"\\]{1,80})"\s*:\s*"((?:[^"\\]|\\.)*)"?')
_OF_NUMBERS: Final = re.compile(r"(?i)pass|secret")
"""Names whose numbers are secrets, too."""
_WORD: Final = re.compile(rf"[A-Za-z0-9+_=\-]{{{_SHORTEST},}}")


class Redactor:
    """Hides secrets, and counts them.

    Args:
        keys: names of further members whose values are hidden, in any case.

    Attributes:
        hidden: how many values were hidden so far.
    """

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._keys = frozenset(key.lower() for key in keys)
        self.hidden = 0

    def json_text(self, text: str) -> str:
        """A JSON text without its secrets. What is no JSON is treated as plain text."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        try:
            return json.dumps(self.value(value), ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            return self.text(text)

    def value(self, value: Any) -> Any:
        """A JSON value without its secrets."""
        if isinstance(value, dict):
            return {
                self.text(key): self._hide() if self._is_secret(key, inner) else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """A text without the words that are, or look like, secrets."""
        text = self._counted(mask(text[:MAX_TEXT]), text)
        text = _PRIVATE_KEY.sub(lambda _: self._hide(), text)
        text = _IN_ADDRESS.sub(lambda _: self._hide(), text)
        text = _BEARER.sub(lambda found: found[1] + self._hide(), text)
        text = _MEMBER.sub(self._member, text)
        text = _ASSIGNED.sub(self._assigned, text)
        text = _KNOWN.sub(lambda _: self._hide(), text)
        return _WORD.sub(lambda found: self._hide() if looks_random(found[0]) else found[0], text)

    def counted_text(self, text: str) -> tuple[str, int]:
        """The same, and how many values were hidden in it."""
        before = self.hidden
        shown = self.text(text)
        return shown, max(self.hidden - before, int(shown != text))

    def _member(self, found: re.Match[str]) -> str:
        """A member in a JSON text that is no longer whole, or within another text."""
        if not self._is_secret(found[1], found[2]) or found[2] == HIDDEN:
            return found[0]
        return f'"{found[1]}":"{self._hide()}"'

    def _assigned(self, found: re.Match[str]) -> str:
        """`PASSWORD=…` and `"token": "…"` within a text."""
        if not self._is_secret(found[1], found[3]) or found[3].startswith(HIDDEN):
            return found[0]
        return f"{found[1]}{found[2]}{self._hide()}"

    def _is_secret(self, name: str, value: Any) -> bool:
        """Whether a member is hidden. Flags are no secrets, and few numbers are, as in `"maxTokens": 100`."""
        if name.lower() in self._keys:
            return True
        if isinstance(value, bool) or value in (None, "") or not is_secret_name(name):
            return False
        return not isinstance(value, int | float) or _OF_NUMBERS.search(name) is not None

    def _hide(self) -> str:
        self.hidden += 1
        return HIDDEN

    def _counted(self, masked: str, text: str) -> str:
        self.hidden += masked.count(HIDDEN) - text[:MAX_TEXT].count(HIDDEN)
        return masked


def hidden_keys(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas, as in the settings."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def looks_random(word: str) -> bool:
    """Whether a word looks like a generated key: mixed characters of high entropy, or long hexadecimal."""
    if len(word) < _SHORTEST:
        return False
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", word):
        return len(word) >= _SHORTEST_HEX and len(word) not in _NAMES_OF_OBJECTS and not word.isdigit()
    kinds = [next((kind for kind in _KINDS if kind(one)), None) for one in word]
    changes = sum(one is not other for one, other in pairwise(kinds))
    has_all = all(kind in kinds for kind in _KINDS)
    return has_all and changes >= _LEAST_CHANGES * len(word) and _bits(word) >= _LEAST_BITS


def _bits(word: str) -> float:
    """Shannon entropy in bits for each character."""
    size = len(word)
    return -sum(count / size * math.log2(count / size) for count in Counter(word).values())
