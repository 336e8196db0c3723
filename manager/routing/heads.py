"""Reads and judges heads, and remembers what it made of them.

A client sends the same head with every call but for the digits of its `Content-Length`, and two heads that
differ in nothing else are read alike. So the grammar (`http_front/head.py`), the door's rules (`door.py`)
and what the head says (`arrival.py`) are asked once for each head. Nothing is remembered of a head that was
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from http_front.head import MALFORMED, Framing, framing, may_become_head, parse_head
from manager.routing.arrival import Arrival, arrival
from manager.routing.door import DoorRefusal, DoorRules, RequestFacts, refuse

REMEMBERED: Final = 1024
LONGEST: Final = 2048
"""Bytes of a head that is remembered."""
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,7})(?=\r\n)")


@dataclass(frozen=True, slots=True)
class Refused:
    """A head that does not get in; `facts` where it could be read."""

    refusal: DoorRefusal
    facts: RequestFacts | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A head that may go on; `arrival` where it is for an MCP route."""

    facts: RequestFacts
    framing: Framing
    arrival: Arrival | None


class Heads:
    """What is known of heads under some rules."""

    def __init__(self, rules: DoorRules) -> None:
        self._rules = rules
        self._known: dict[bytes, Head] = {}

    def read(self, raw: bytes) -> tuple[Head, int | None] | Refused:
        """What a whole head is, and the length of its body in bytes (None: in chunks)."""
        digits = _LENGTH.search(raw) if len(raw) <= LONGEST else None
        if digits is None:
            judged = self._judge(raw)
            return judged if isinstance(judged, Refused) else (judged, judged.framing.length)
        begin, end = digits.span(1)
        key, length = raw[:begin] + raw[end:], int(raw[begin:end])
        known = self._known.get(key)
        if known is not None and length <= self._rules.body_cap:
            return known, length
        judged = self._judge(raw)
        if isinstance(judged, Refused):
            return judged
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = judged
        return judged, length

    def hopeless(self, begin: bytes) -> DoorRefusal | None:
        """Why what has come of a head can never become one that gets in, if so."""
        if len(begin) > self._rules.head_cap:
            return self._rules.head_too_large
        is_possible = begin in (b"", b"\r") or may_become_head(begin)
        return None if is_possible else MALFORMED

    def _judge(self, raw: bytes) -> Head | Refused:
        facts = self._rules.head_too_large if len(raw) > self._rules.head_cap else parse_head(raw)
        if isinstance(facts, DoorRefusal):
            return Refused(facts)
        refusal = refuse(facts, self._rules)
        if refusal is not None:
            return Refused(refusal, facts)
        return Head(facts, framing(raw, facts), arrival(facts))
