"""What of a result only the stateless era knows: bytes at the beginning of its object, and bytes at its end.

A result names its type first and who answered last, where it is written as nearly all are. A workspace server
says how many bytes these are, in a header of an answer of JSON, in a comment of an event: who passes the
answer on to a session cuts it then, and need not read it. Results in which more is different for a session
have no trim: how such are written there is the manager's to know (`legacy_form.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from protocol import headers, jsonrpc, names

TYPE: Final = b'"resultType":"complete",'
META: Final = b',"_meta":'
_LONGEST_META: Final = 1024
"""Bytes of the member that names the server; with a longer one there is no trim."""
_WORDS: Final = re.compile(rb"([0-9]{1,4}) ([0-9]{1,4})")
_COMMENT: Final = f" {headers.RESULT_TRIM}: ".encode()
_Absent = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET


class ResultTrim(NamedTuple):
    """How many bytes a session does not get: behind the opening bracket, and before the closing one."""

    first: int
    last: int

    @classmethod
    def from_header(cls, value: bytes | None) -> ResultTrim | None:
        """What the header's value says; None where there is none, or it says something else."""
        found = None if value is None else _WORDS.fullmatch(value)
        return None if found is None else cls(int(found[1]), int(found[2]))

    @classmethod
    def from_comment(cls, text: bytes | None) -> ResultTrim | None:
        """What an event's comment says; None where there is none, or it says something else."""
        return (
            cls.from_header(text[len(_COMMENT) :]) if text is not None and text.startswith(_COMMENT) else None
        )

    @property
    def value(self) -> str:
        """What the header says."""
        return f"{self.first} {self.last}"

    @property
    def comment(self) -> str:
        """What the comment of an event says."""
        return f"{headers.RESULT_TRIM}: {self.value}"


class _Result(msgspec.Struct, gc=False, rename={"meta": "_meta"}):
    """The members that another era knows differently."""

    resultType: msgspec.Raw | _Absent = _UNSET  # noqa: N815  the protocol's name
    ttlMs: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    cacheScope: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    meta: msgspec.Raw | _Absent = _UNSET
    structuredContent: msgspec.Raw | _Absent = _UNSET  # noqa: N815


_read: Final = msgspec.json.Decoder(_Result).decode


def compute_trim(text: bytes, begin: int, end: int) -> ResultTrim | None:
    """The trim of the result of a tool that these bytes of a text are; None where it has none.

    What is left is read, so that nothing is left out that was something else, and nothing is in it that a
    session does not know.
    """
    if end - begin < 2 or not text.startswith(b"{", begin) or not text.endswith(b"}", begin, end):
        return None
    start, stop = begin + 1, end - 1
    if text.startswith(TYPE, start, stop):
        start += len(TYPE)
    meta = text.rfind(META, max(start, stop - _LONGEST_META), stop)
    if meta >= 0 and _names_server_alone(text[meta + len(META) : stop]):
        stop = meta
    try:
        rest = _read(b"{%b}" % text[start:stop])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not (rest.resultType is rest.ttlMs is rest.cacheScope is rest.meta is _UNSET):
        return None
    structured = rest.structuredContent
    is_known = structured is _UNSET or bytes(structured)[:1] == b"{"
    return ResultTrim(start - begin - 1, end - 1 - stop) if is_known else None


@lru_cache(maxsize=64)  # one server says the same with every result
def _names_server_alone(meta: bytes) -> bool:
    """Whether a text is an object that names the server, and says nothing else."""
    return jsonrpc.members_of(meta).keys() == {names.META_SERVER}
