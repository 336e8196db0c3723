"""What all calls of one tool by one client have in common: everything but their id and their arguments.

A client writes its calls alike, whatever its order of members. Once a message was read and judged, another
that differs in these two values alone is known to mean the same: it is compared with the pattern instead of
being read. What the pattern does not explain to the byte, is not matched, and is read as any other message.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from protocol import jsonrpc

LONGEST: Final = 16 * 1024
"""Bytes of a body that is compared; reading a longer one is not what it costs."""
MAX_BRACKETS: Final = 64
"""Opening brackets in arguments that are harmless, wherever they are (half of what `json_scan.py` allows)."""

_TEXT: Final = rb'"[ !#-\[\]-~]{0,64}"'
PLAIN_ID: Final = rb"0|[1-9][0-9]{0,14}|" + _TEXT
"""The regular expression of what `is_plain_id` says."""
_TEXT_ID: Final = re.compile(_TEXT)
_LONGEST_NUMBER: Final = 15
_ZERO: Final = ord("0")
_BACKSLASH, _BRACE, _BRACKET = b"\\{["
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


Filled = tuple[bytes, bytes]
"""Id and arguments of a message, as JSON text: the two values in which it differs from others."""
PROBE: Final[Filled] = (b"482716593", b'{"probe":[482716593]}')
"""Values that no call has."""


class CallPattern:
    """The text around id and arguments, in the order in which the client writes the two."""

    __slots__ = ("_begin", "_end", "_is_id_first", "_middle")

    def __init__(self, begin: bytes, middle: bytes, end: bytes, *, is_id_first: bool) -> None:
        self._begin = begin
        self._middle = middle
        self._end = end
        self._is_id_first = is_id_first

    def match(self, body: bytes) -> Filled | None:
        """What a body fills into the pattern; None where it is none of these calls, or not a harmless one.

        What is matched is valid JSON, plain ASCII without lone surrogates, neither long nor deep (M-10,
        M-11); the arguments are an object.
        """
        begin, middle, end = self._begin, self._middle, self._end
        if not (body.startswith(begin) and body.endswith(end)) or len(body) > LONGEST:
            return None
        start, stop = len(begin), len(body) - len(end)
        # The place nearer to the id: an id cannot contain what stands beside it.
        if self._is_id_first:
            cut = body.find(middle, start, stop)
            identity, arguments = body[start:cut], body[cut + len(middle) : stop]
        else:
            cut = body.rfind(middle, start, stop)
            identity, arguments = body[cut + len(middle) : stop], body[start:cut]
        is_number = identity.isdigit() and identity[0] != _ZERO and len(identity) <= _LONGEST_NUMBER
        if cut < 0 or not (is_number or is_plain_id(identity)) or not arguments.isascii():
            return None
        if not (arguments.startswith(b"{") and arguments.endswith(b"}")):
            return None
        if arguments.find(_BACKSLASH) >= 0 and b"\\u" in arguments:
            return None
        is_flat = arguments.find(_BRACE, 1) < 0 and arguments.find(_BRACKET) < 0
        if not is_flat and arguments.count(_BRACE) + arguments.count(_BRACKET) > MAX_BRACKETS:
            return None
        try:
            _skip(arguments)
        except (msgspec.DecodeError, RecursionError):
            return None
        return identity, arguments

    def filled(self, found: Filled, head: bytes = b"") -> bytes:
        """The message with these values, behind a head."""
        identity, arguments = found
        if self._is_id_first:
            return b"".join((head, self._begin, identity, self._middle, arguments, self._end))
        return b"".join((head, self._begin, arguments, self._middle, identity, self._end))

    @property
    def size(self) -> int:
        """Bytes of the text around the two values."""
        return len(self._begin) + len(self._middle) + len(self._end)


def is_plain_id(identity: bytes) -> bool:
    """Whether a JSON text is a natural number as everybody writes it, or a short string without escapes."""
    if identity.isdigit():
        return len(identity) <= _LONGEST_NUMBER and (identity[0] != _ZERO or len(identity) == 1)
    return _TEXT_ID.fullmatch(identity) is not None


def probe_of(body: bytes) -> tuple[CallPattern, bytes] | None:
    """The pattern of a message, and another message of it.

    Both values are looked for in the text and others put in their places: where these are what a reader then
    finds, and all else is as it was, the places are the right ones for any values.

    Returns:
        None where the message has no such pattern.
    """
    read = _Read.of(body)
    if read is None or len(body) > LONGEST or not body.isascii():
        return None
    place_id, place_arguments = b'"id":' + read.filled[0], b'"arguments":' + read.filled[1]
    if body.count(place_id) != 1 or body.count(place_arguments) != 1:
        return None
    identity = body.index(place_id) + len(b'"id":')
    arguments = body.index(place_arguments) + len(b'"arguments":')
    pattern = _around(body, (identity, len(read.filled[0])), (arguments, len(read.filled[1])))
    if pattern is None:
        return None
    probe = pattern.filled(PROBE)
    expected = _Read(PROBE, read.rest)
    return (pattern, probe) if _Read.of(probe) == expected and pattern.match(body) == read.filled else None


def _around(body: bytes, identity: tuple[int, int], arguments: tuple[int, int]) -> CallPattern | None:
    (one, first), (other, second) = sorted((identity, arguments))
    if one + first > other:
        return None  # one inside the other
    pieces = body[:one], body[one + first : other], body[other + second :]
    return CallPattern(*pieces, is_id_first=identity < arguments)


class _Read(NamedTuple):
    """A message as a reader finds it: the two values, and the text of everything else by its name."""

    filled: Filled
    rest: dict[str, bytes]

    @classmethod
    def of(cls, body: bytes) -> _Read | None:
        envelope = jsonrpc.members_of(body)
        params = jsonrpc.members_of(envelope.get("params", b""))
        if "id" not in envelope or "arguments" not in params:
            return None
        filled = jsonrpc.bytes_of(envelope.pop("id")), jsonrpc.bytes_of(params.pop("arguments"))
        del envelope["params"]
        rest = {name: jsonrpc.bytes_of(raw) for name, raw in envelope.items()}
        return cls(filled, rest | {f"params.{name}": jsonrpc.bytes_of(raw) for name, raw in params.items()})
