"""Defines a trust item: one script tool, server or setting of a workspace that needs the user's trust. Pure.

`items.py` creates items from the configuration, `store.py` records which of them are trusted.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from workspace_server.results import well_formed

Verdict = Literal["trusted", "never", "changed"]
"""`never`: not trusted yet, or the store cannot be read; `changed`: another content was trusted."""

EXECUTABLE: Final = "\0x"
LINK: Final = "\0l"
DATA: Final = "data"
"""The member of `facts` with the files of a command that may change, as the command writes them."""
_LABEL: Final = b"lm-tools-bridge trust item 1\n"


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One script tool, server or setting of a workspace that takes effect only if the user trusts it.

    The mappings must not be changed after creation.

    Attributes:
        key: `script:<relative folder>`, `stdio:<namespace>`, `remote:<namespace>`,
            `language-server:<name>`, `settings` or `providers`.
        title: one line for a person, without secrets; not escaped.
        facts: the configuration as JSON values, secrets replaced by `hashed`.
        files: the bytes that run, by relative name. The name ends with `EXECUTABLE` if the file is
            executable, and with `LINK` if it is a symbolic link, whose bytes are its target.
        may_be_data: files of the command that the user may mark as data, whether they exist or not.
        not_data: files that the entry or the user calls data and that cannot be, with the reason.
        is_optional: whether something else does the same without trust, so that nothing waits for it.
        same_in: the project's files in which the entry means the same: between these it may move.
        leads_out: whether a path in it leads out of the project, so that it means something else elsewhere.
    """

    key: str
    title: str
    facts: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    may_be_data: tuple[str, ...] = ()
    not_data: Mapping[str, str] = field(default_factory=dict)
    is_optional: bool = False
    same_in: frozenset[str] = frozenset()
    leads_out: bool = False
    _digests: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def digest(self) -> str:
        """SHA-256 in hex of key, facts and files; all else is derived from them."""
        if not self._digests:  # needed by every request
            self._digests.append(_digest(self))
        return self._digests[0]

    def hashes(self) -> dict[str, str]:
        """SHA-256 in hex of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}


def trust_command(root: object) -> str:
    """The command that trusts the workspace at this path, quoted for a shell."""
    return f"lmtb trust {shlex.quote(well_formed(str(root)))}"


def untrust_command(root: object) -> str:
    """The command that revokes that trust, quoted for a shell."""
    return f"lmtb untrust {shlex.quote(well_formed(str(root)))}"


def hashed(value: str | bytes) -> str:
    """The replacement of a secret in `facts`: its SHA-256."""
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def file_name(relative: str, *, executable: bool = False, link: bool = False) -> str:
    """The key of a file in `TrustItem.files`."""
    return relative + (EXECUTABLE if executable else "") + (LINK if link else "")


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """A key of `TrustItem.files` as its path and its flags (`executable`, `link`)."""
    path, *flags = name.split("\0")
    words = {EXECUTABLE[1:]: "executable", LINK[1:]: "link"}
    return path, tuple(words.get(flag, flag) for flag in flags)


def _digest(item: TrustItem) -> str:
    # length prefixes make the encoding unambiguous
    state = hashlib.sha256(_LABEL)
    for part in (_bytes(item.key), canonical(item.facts)):
        state.update(b"%d:" % len(part) + part)
    for name, content in sorted((_bytes(name), content) for name, content in item.files.items()):
        state.update(b"%d:%d:" % (len(name), len(content)) + name)
        state.update(content)
    return state.hexdigest()


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a value, with the keys of its mappings."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield str(key)
            yield from texts_in(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from texts_in(member)
    else:
        yield value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def canonical(facts: Any) -> bytes:
    """The canonical JSON of `facts`: ASCII, keys sorted, no blanks."""
    text = json.dumps(facts, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_tagged)
    return text.encode("ascii")


def _tagged(value: object) -> dict[str, str]:
    """A TOML date or time, which JSON does not have, as its type and text."""
    return {type(value).__name__: str(value)}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # file names that are not UTF-8 contain surrogates
