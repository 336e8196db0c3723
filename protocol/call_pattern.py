"""What all calls of one tool by one client have in common: all but their id, their arguments and their marks.

A client writes its calls alike, whatever its order of members. Once a message was read and judged, another
that differs in these values alone is known to mean the same: it is compared with the pattern instead of
being read. What the pattern does not explain to the byte, is not matched, and is read as any other message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from protocol import jsonrpc

LONGEST: Final = 16 * 1024
"""Bytes of a body that is compared; reading a longer one is not what it costs."""
MAX_BRACKETS: Final = 64
"""Opening brackets in arguments that are harmless, wherever they are (half of what the manager allows)."""

_TEXT: Final = rb'"[ !#-\[\]-~]{0,64}"'
PLAIN_ID: Final = rb"0|[1-9][0-9]{0,14}|" + _TEXT
"""The regular expression of what `is_plain_id` says."""
_TEXT_ID: Final = re.compile(_TEXT)
_mark: Final = re.compile(PLAIN_ID).match
_LONGEST_NUMBER: Final = 15
_ZERO: Final = ord("0")
_BACKSLASH, _BRACE, _BRACKET = b"\\{["
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


PatternValues = tuple[bytes, ...]
"""Id and arguments of a message as JSON text, and its marks: the values in which it differs from others."""
VOLATILE_MEMBERS: Final = (b'"claudecode/toolUseId":', b'"progressToken":')
"""Members which clients write into each call anew. They mean nothing on the way to the workspace server."""
_PROBE: Final[PatternValues] = (b"482716593", b'{"probe":[482716593]}')
_PROBE_MARK: Final = b"593482716"
"""Values that no call has."""


class CallPattern:
    """The text around id and arguments, in the order in which the client writes the two."""

    __slots__ = ("_begin", "_end", "_is_id_first", "_middle", "_sizes")

    def __init__(self, begin: bytes, middle: bytes, end: bytes, *, is_id_first: bool) -> None:
        self._begin = begin
        self._middle = middle
        self._end = end
        self._sizes = len(begin), len(middle), len(end)
        self._is_id_first = is_id_first

    def match(self, body: bytes) -> PatternValues | None:
        """What a body fills into the pattern; None where it is none of these calls, or not a harmless one.

        What is matched is valid JSON, plain ASCII without lone surrogates, neither long nor deep; the
        arguments are an object.
        """
        if not (body.startswith(self._begin) and body.endswith(self._end)) or len(body) > LONGEST:
            return None
        middle = self._middle
        start, between, behind = self._sizes
        stop = len(body) - behind
        # The place nearer to the id: an id cannot contain what stands beside it.
        if self._is_id_first:
            cut = body.find(middle, start, stop)
            identity, arguments = body[start:cut], body[cut + between : stop]
        else:
            cut = body.rfind(middle, start, stop)
            identity, arguments = body[cut + between : stop], body[start:cut]
        is_number = identity.isdigit() and identity[0] != _ZERO and len(identity) <= _LONGEST_NUMBER
        if cut < 0 or not (is_number or is_plain_id(identity)):
            return None
        if not arguments.isascii() or arguments[-1:] != b"}":
            return None
        if _BACKSLASH in arguments and b"\\u" in arguments:
            return None
        if _BRACKET in arguments or arguments.rfind(_BRACE) != 0:  # neither is the rule
            brackets = arguments.count(_BRACE) + arguments.count(_BRACKET)
            if not arguments.startswith(b"{") or brackets > MAX_BRACKETS:
                return None
        try:
            _skip(arguments)
        except (msgspec.DecodeError, RecursionError):
            return None
        return identity, arguments

    def fill(self, found: PatternValues) -> bytes:
        """The message with these values."""
        identity, arguments = found
        if self._is_id_first:
            return b"".join((self._begin, identity, self._middle, arguments, self._end))
        return b"".join((self._begin, arguments, self._middle, identity, self._end))

    @property
    def probe(self) -> PatternValues:
        """Values that no call has."""
        return _PROBE

    def marked(self) -> CallPattern | VolatileMembersPattern:
        """The same for calls that have other marks, where there are any."""
        before, behind = [self._begin], [self._end]
        (before if self._is_id_first else behind).append(self._middle)
        found = [
            name for name in VOLATILE_MEMBERS if sum(piece.count(name) for piece in (*before, *behind)) == 1
        ]
        bare = [_bare(piece, found) for piece in (self._begin, self._middle, self._end)]
        if not found or None in bare:
            return self
        begin, middle, end = (piece or b"" for piece in bare)
        marks = tuple((name, any(name in piece for piece in behind)) for name in found)
        return VolatileMembersPattern(CallPattern(begin, middle, end, is_id_first=self._is_id_first), marks)


class VolatileMembersPattern:
    """The same where calls differ in marks, too: what is left of one without them is matched."""

    __slots__ = ("_marks", "_pattern")

    def __init__(self, pattern: CallPattern, marks: tuple[tuple[bytes, bool], ...]) -> None:
        """Args:
        marks: the name of each, which the pattern has once, and whether it comes behind the arguments.
        """
        self._pattern = pattern
        self._marks = marks

    def match(self, body: bytes) -> PatternValues | None:
        """As `CallPattern.match`."""
        marks = []
        for name, is_behind in self._marks:
            # The place farther from the arguments: they alone might contain the name.
            at = body.rfind(name) if is_behind else body.find(name)
            found = _mark(body, at + len(name)) if at >= 0 else None
            if found is None:
                return None
            marks.append(found[0])
            body = body[: found.start()] + body[found.end() :]
        bare = self._pattern.match(body)
        return None if bare is None else (*bare, *marks)

    def fill(self, found: PatternValues) -> bytes:
        """As `CallPattern.fill`."""
        body = self._pattern.fill(found[:2])
        for (name, is_behind), mark in zip(self._marks, found[2:], strict=True):
            at = (body.rfind(name) if is_behind else body.find(name)) + len(name)
            body = body[:at] + mark + body[at:]
        return body

    @property
    def probe(self) -> PatternValues:
        """As `CallPattern.probe`."""
        return (*_PROBE, *(_PROBE_MARK for _ in self._marks))


Pattern = CallPattern | VolatileMembersPattern


def _bare(piece: bytes, names: Sequence[bytes]) -> bytes | None:
    """The text without the values of marks; None where one has no plain value."""
    for name in names:
        if (at := piece.find(name)) >= 0:
            found = _mark(piece, at + len(name))
            if found is None or piece[found.end() : found.end() + 1] not in {b",", b"}"}:
                return None
            piece = piece[: found.start()] + piece[found.end() :]
    return piece


def is_plain_id(identity: bytes) -> bool:
    """Whether a JSON text is a natural number as everybody writes it, or a short string without escapes."""
    if identity.isdigit():
        return len(identity) <= _LONGEST_NUMBER and (identity[0] != _ZERO or len(identity) == 1)
    return _TEXT_ID.fullmatch(identity) is not None


def derive_pattern(body: bytes) -> tuple[Pattern, bytes] | None:
    """The pattern of a message, and another message of it.

    Both values are looked for in the text and others put in their places: where these are what a reader then
    finds, and all else is as it was, the places are the right ones for any values.

    Returns:
        None where the message has no such pattern.
    """
    read = _Read.of(body)
    if read is None or len(body) > LONGEST or not body.isascii():
        return None
    place_id, place_arguments = b'"id":' + read.fill[0], b'"arguments":' + read.fill[1]
    if body.count(place_id) != 1 or body.count(place_arguments) != 1:
        return None
    identity = body.index(place_id) + len(b'"id":')
    arguments = body.index(place_arguments) + len(b'"arguments":')
    pattern = _around(body, (identity, len(read.fill[0])), (arguments, len(read.fill[1])))
    if pattern is None:
        return None
    if _Read.of(pattern.fill(_PROBE)) != _Read(_PROBE, read.rest) or pattern.match(body) != read.fill:
        return None
    marked = pattern.marked()
    return marked, marked.fill(marked.probe)


def _around(body: bytes, identity: tuple[int, int], arguments: tuple[int, int]) -> CallPattern | None:
    (one, first), (other, second) = sorted((identity, arguments))
    if one + first > other:
        return None  # one inside the other
    pieces = body[:one], body[one + first : other], body[other + second :]
    return CallPattern(*pieces, is_id_first=identity < arguments)


class _Read(NamedTuple):
    """A message as a reader finds it: the two values, and the text of everything else by its name."""

    fill: PatternValues
    rest: dict[str, bytes]

    @classmethod
    def of(cls, body: bytes) -> _Read | None:
        envelope = jsonrpc.members_of(body)
        params = jsonrpc.members_of(envelope.get("params", b""))
        if "id" not in envelope or "arguments" not in params:
            return None
        fill = jsonrpc.bytes_of(envelope.pop("id")), jsonrpc.bytes_of(params.pop("arguments"))
        del envelope["params"]
        rest = {name: jsonrpc.bytes_of(raw) for name, raw in envelope.items()}
        return cls(fill, rest | {f"params.{name}": jsonrpc.bytes_of(raw) for name, raw in params.items()})
