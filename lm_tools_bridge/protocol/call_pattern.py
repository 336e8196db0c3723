"""Matches repeated calls by their bytes: the same message with another id, arguments or volatile members.

A client writes all calls of a tool in the same way. After one call was parsed and resolved, the next one that
differs only in these values needs no parsing: it is compared with the pattern of the first. A message that
does not match byte for byte is parsed as usual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from lm_tools_bridge.protocol import jsonrpc

LONGEST: Final = 16 * 1024
"""Longest body in bytes that is matched. For longer ones, parsing is a small part of the cost."""
MAX_BRACKETS: Final = 64
"""Opening brackets allowed in arguments: half the nesting depth that the manager allows."""

_TEXT: Final = rb'"[ !#-\[\]-~]{0,64}"'
PLAIN_ID: Final = rb"0|[1-9][0-9]{0,14}|" + _TEXT
"""The regular expression for `is_plain_id`."""
_TEXT_ID: Final = re.compile(_TEXT)
_match_value: Final = re.compile(PLAIN_ID).match
_LONGEST_NUMBER: Final = 15
_ZERO: Final = ord("0")
_BACKSLASH, _BRACE, _BRACKET = b"\\{["
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


PatternValues = tuple[bytes, ...]
"""Id, arguments and values of volatile members of one call, each as JSON text."""
PLAIN_VALUES: Final = 2
"""How many values a call without volatile members has."""
VOLATILE_MEMBERS: Final = (b'"claudecode/toolUseId":', b'"progressToken":', b'"traceparent":')
"""Members with a new value in each call. They do not influence routing."""
_PROBE: Final[PatternValues] = (b"482716593", b'{"probe":[482716593]}')
_PROBE_MEMBER: Final = b"593482716"
"""Values that no real call has."""


class CallPattern:
    """The bytes of a call around id and arguments, in the order in which the client writes the two."""

    __slots__ = ("_begin", "_end", "_is_id_first", "_middle", "_sizes")

    def __init__(self, begin: bytes, middle: bytes, end: bytes, *, is_id_first: bool) -> None:
        self._begin = begin
        self._middle = middle
        self._end = end
        self._sizes = len(begin), len(middle), len(end)
        self._is_id_first = is_id_first

    def match(self, body: bytes) -> PatternValues | None:
        """The values of a call that matches the pattern, else None.

        A matching body is valid JSON in ASCII without `\\u` escapes, at most `LONGEST` bytes long and not
        deeply nested. Its arguments are an object.
        """
        if not (body.startswith(self._begin) and body.endswith(self._end)) or len(body) > LONGEST:
            return None
        middle = self._middle
        start, between, behind = self._sizes
        stop = len(body) - behind
        # Searched from the side of the id: an id cannot contain the text beside it.
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
        if _BRACKET in arguments or arguments.rfind(_BRACE) != 0:  # uncommon: nested arguments
            brackets = arguments.count(_BRACE) + arguments.count(_BRACKET)
            if not arguments.startswith(b"{") or brackets > MAX_BRACKETS:
                return None
        try:
            _skip(arguments)
        except (msgspec.DecodeError, RecursionError):
            return None
        return identity, arguments

    def fill(self, values: PatternValues) -> bytes:
        """Build the call with these values."""
        identity, arguments = values
        if self._is_id_first:
            return b"".join((self._begin, identity, self._middle, arguments, self._end))
        return b"".join((self._begin, arguments, self._middle, identity, self._end))

    @property
    def probe(self) -> PatternValues:
        """Values that no real call has."""
        return _PROBE

    def with_volatile_members(self) -> CallPattern | VolatileMembersPattern:
        """This pattern with its volatile members as variables, if it has any."""
        before, behind = [self._begin], [self._end]
        (before if self._is_id_first else behind).append(self._middle)
        text = b"\n".join((*before, *behind))
        names = [_spelling(name, text) for name in VOLATILE_MEMBERS if text.count(name) == 1]
        bare = [_bare(piece, names) for piece in (self._begin, self._middle, self._end)]
        if not names or None in bare:
            return self
        begin, middle, end = (piece or b"" for piece in bare)
        members = tuple((name, any(name in piece for piece in behind)) for name in names)
        return VolatileMembersPattern(CallPattern(begin, middle, end, is_id_first=self._is_id_first), members)


class VolatileMembersPattern:
    """A pattern with volatile members: their values are cut out before the rest is matched."""

    __slots__ = ("_members", "_pattern")

    def __init__(self, pattern: CallPattern, members: tuple[tuple[bytes, bool], ...]) -> None:
        """Args:
        members: name of each volatile member, which occurs once, and whether it follows the arguments.
        """
        self._pattern = pattern
        self._members = members

    def match(self, body: bytes) -> PatternValues | None:
        """As `CallPattern.match`."""
        values = []
        for name, is_behind in self._members:
            # Searched from the side away from the arguments: only they might contain the name as well.
            at = body.rfind(name) if is_behind else body.find(name)
            match = _match_value(body, at + len(name)) if at >= 0 else None
            if match is None:
                return None
            values.append(match[0])
            body = body[: match.start()] + body[match.end() :]
        bare = self._pattern.match(body)
        return None if bare is None else (*bare, *values)

    def fill(self, values: PatternValues) -> bytes:
        """As `CallPattern.fill`."""
        body = self._pattern.fill(values[:2])
        for (name, is_behind), value in zip(self._members, values[2:], strict=True):
            at = (body.rfind(name) if is_behind else body.find(name)) + len(name)
            body = body[:at] + value + body[at:]
        return body

    @property
    def probe(self) -> PatternValues:
        """As `CallPattern.probe`."""
        return (*_PROBE, *(_PROBE_MEMBER for _ in self._members))


Pattern = CallPattern | VolatileMembersPattern


def _spelling(name: bytes, text: bytes) -> bytes:
    """The name of a member as this text has it, with the blank behind its colon if there is one."""
    return name + b" " if name + b" " in text else name


def _bare(piece: bytes, names: Sequence[bytes]) -> bytes | None:
    """The text without the values of volatile members; None if a value is not plain."""
    for name in names:
        if (at := piece.find(name)) >= 0:
            match = _match_value(piece, at + len(name))
            if match is None or piece[match.end() : match.end() + 1] not in {b",", b"}"}:
                return None
            piece = piece[: match.start()] + piece[match.end() :]
    return piece


def is_plain_id(identity: bytes) -> bool:
    """Whether an id is a natural number of at most 15 digits or a string of at most 64 ASCII characters."""
    if identity.isdigit():
        return len(identity) <= _LONGEST_NUMBER and (identity[0] != _ZERO or len(identity) == 1)
    return _TEXT_ID.fullmatch(identity) is not None


def derive_pattern(body: bytes) -> tuple[Pattern, bytes] | None:
    """Derive the pattern of a call, and build a probe: the same call with values that no real call has.

    The positions of id and arguments are verified: with the probe's values at these positions, a parser must
    find these values, and everything else unchanged.

    Returns:
        The pattern and the probe; None if the call has no pattern.
    """
    parsed = _ParsedCall.of(body)
    if parsed is None or len(body) > LONGEST or not body.isascii():
        return None
    identity = _place_of(b'"id"', parsed.values[0], body)
    arguments = _place_of(b'"arguments"', parsed.values[1], body)
    pattern = None if identity is None or arguments is None else _around(body, identity, arguments)
    if pattern is None:
        return None
    is_verified = _ParsedCall.of(pattern.fill(_PROBE)) == _ParsedCall(_PROBE, parsed.rest)
    if not is_verified or pattern.match(body) != parsed.values:
        return None
    complete = pattern.with_volatile_members()
    return complete, complete.fill(complete.probe)


def _place_of(name: bytes, value: bytes, body: bytes) -> tuple[int, int] | None:
    """Begin and end of this value of a member in a body; None if it does not occur once.

    Compact encoders write nothing between the colon and the value, others (Python's by default) a blank.
    """
    places = list(re.finditer(rb"%b: ?(%b)" % (name, re.escape(value)), body))
    return places[0].span(1) if len(places) == 1 else None


def _around(body: bytes, identity: tuple[int, int], arguments: tuple[int, int]) -> CallPattern | None:
    (start, stop), (other_start, other_stop) = sorted((identity, arguments))
    if stop > other_start:
        return None  # one is inside the other
    pieces = body[:start], body[stop:other_start], body[other_stop:]
    return CallPattern(*pieces, is_id_first=identity < arguments)


class _ParsedCall(NamedTuple):
    """A parsed call: id and arguments, and the JSON text of all other members by name."""

    values: PatternValues
    rest: dict[str, bytes]

    @classmethod
    def of(cls, body: bytes) -> _ParsedCall | None:
        envelope = jsonrpc.members_of(body)
        params = jsonrpc.members_of(envelope.get("params", b""))
        if "id" not in envelope or "arguments" not in params:
            return None
        values = jsonrpc.bytes_of(envelope.pop("id")), jsonrpc.bytes_of(params.pop("arguments"))
        del envelope["params"]
        rest = {name: jsonrpc.bytes_of(raw) for name, raw in envelope.items()}
        return cls(values, rest | {f"params.{name}": jsonrpc.bytes_of(raw) for name, raw in params.items()})
