"""Calls of tools that only compute, which differ from earlier ones in id and arguments alone.

They are compared instead of being read (`protocol/call_pattern.py`). What they are answered, and under which
view, say `methods/table.py` and `calls/dispatch.py`; nothing is decided here.
"""

from __future__ import annotations

from typing import Final

from protocol import inbound
from protocol.call_pattern import Pattern, derive_pattern
from protocol.inbound import Inbound
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.http.head_reader import REMEMBERED, Head
from workspace_server.methods.table import Answer, Methods

MOST: Final = 4
"""Kinds of calls that are known with one head: programs that write the same head and other bodies."""
RARELY: Final = 64
"""Where more came with one head and were not known, only each so many-th is learned from.

There are programs that write something new into each call: to learn from all would cost more than it saves.
"""


class _Known:
    """What is known of the calls that come with one head: all of one tool, as the head names it.

    Attributes:
        view: under which it was found out.
        offered: the tool.
        patterns: the calls.
        others: how many came that fitted none.
    """

    __slots__ = ("offered", "others", "patterns", "view")

    def __init__(self, view: View, offered: OfferedTool) -> None:
        self.view = view
        self.offered = offered
        self.patterns: tuple[Pattern, ...] = ()
        self.others = 0


class RepeatedCalls:
    """Answers such calls.

    Args:
        methods: knows the answers.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._by_head: dict[Head, _Known] = {}

    def answer(self, head: Head, body: bytes) -> Answer | None:
        """The answer to a call that is known; None for any other request."""
        known = self._by_head.get(head)
        if known is None:
            return None
        for pattern in known.patterns:
            found = pattern.match(body)
            if found is not None:
                return self._methods.answer_again(known.view, known.offered, found[0], found[1])
        return None

    def learn(self, head: Head, asked: McpRequest) -> None:
        """Know calls like this one again, which was answered at once; only if its head has come before."""
        repeatable = self._methods.repeatable(asked) if head.is_known else None
        if repeatable is None:
            return
        known = self._by_head.get(head)
        if known is None or known.view is not repeatable[0]:
            if len(self._by_head) >= REMEMBERED:
                self._by_head.clear()
            known = self._by_head[head] = _Known(*repeatable)
        known.others += 1
        if known.others <= MOST or not known.others % RARELY:
            pattern = _pattern(head, asked)
            known.patterns = known.patterns if pattern is None else (*known.patterns[1 - MOST :], pattern)


def _pattern(head: Head, asked: McpRequest) -> Pattern | None:
    """The pattern of a call, if it has one and reading others of it finds nothing else that counts."""
    found = derive_pattern(asked.request.body)
    if found is None:
        return None
    pattern, probe = found
    other = inbound.classify(head.fields, probe)
    return pattern if isinstance(other, Inbound) and _kept(other) == _kept(asked.inbound) else None


def _kept(message: Inbound) -> tuple[object, ...]:
    """What of a message must not change from one call to the next."""
    return message.era, message.revision, message.name, set(message.params), set(message.meta)
