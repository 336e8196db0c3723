"""One thing of a workspace that runs only with the user's consent, and what exactly the consent is for.

Pure: an item holds what was already read. Making items from configuration is `items.py`, keeping the consent
is `store.py`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from workspace_server.results import well_formed

Verdict = Literal["trusted", "never", "changed"]
"""`never`: nobody was asked yet, or nobody can tell; `changed`: something else was trusted by this name."""

EXECUTABLE: Final = "\0x"
LINK: Final = "\0l"
_LABEL: Final = b"lm-tools-bridge trust item 1\n"


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing of a workspace that runs only with the user's consent.

    Neither mapping is changed once the item is made.

    Attributes:
        key: `script:<relative folder>`, `stdio:<namespace>`, `remote:<namespace>` or `settings`.
        title: one line for a person, without secrets; raw, so whoever prints it escapes it.
        facts: the configuration, JSON-able, secrets replaced by `hashed`.
        files: relative name -> bytes that run. A name ends with `EXECUTABLE` where the file is executable
            and with `LINK` where it is a symbolic link, whose bytes are its target.
    """

    key: str
    title: str
    facts: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    _digests: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def digest(self) -> str:
        """SHA-256 in hex over key, facts and files; the title is derived from those and does not count."""
        if not self._digests:  # asked for with every request
            self._digests.append(_digest(self))
        return self._digests[0]


def trust_command(root: object) -> str:
    """What a person types to trust the workspace at this path; the path may be anybody's choice."""
    return f"lmtb trust {shlex.quote(well_formed(str(root)))}"


def hashed(value: str | bytes) -> str:
    """What stands for a secret in `facts`: equal exactly when the value is."""
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def file_name(relative: str, *, executable: bool = False, link: bool = False) -> str:
    """The name of a file in `TrustItem.files`."""
    return relative + (EXECUTABLE if executable else "") + (LINK if link else "")


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """A name of `TrustItem.files` as its path and what is special about it (`executable`, `link`)."""
    path, *flags = name.split("\0")
    words = {EXECUTABLE[1:]: "executable", LINK[1:]: "link"}
    return path, tuple(words.get(flag, flag) for flag in flags)


def _digest(item: TrustItem) -> str:
    # every part has its length in front, so that no two different items are the same bytes
    state = hashlib.sha256(_LABEL)
    for part in (_bytes(item.key), canonical(item.facts)):
        state.update(b"%d:" % len(part) + part)
    for name, content in sorted((_bytes(name), content) for name, content in item.files.items()):
        state.update(b"%d:%d:" % (len(name), len(content)) + name)
        state.update(content)
    return state.hexdigest()


def canonical(facts: Any) -> bytes:
    """The one JSON text of equal values: ASCII, keys sorted, no blanks."""
    text = json.dumps(facts, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_worded)
    return text.encode("ascii")


def _worded(value: object) -> dict[str, str]:
    """TOML has dates and times, which JSON has not."""
    return {type(value).__name__: str(value)}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # names that are no UTF-8 arrive as surrogates
