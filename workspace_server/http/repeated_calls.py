"""Answers calls that differ from an earlier one only in id and arguments, without parsing them.

Applies to tools that only compute (`Way.REPEATED`). Bodies are compared with patterns
(`lm_tools_bridge/protocol/call_pattern.py`); `Methods` decides which calls may be answered so,
and answers them.
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.http_server.parsing.head_reader import MAX_CACHED_HEADS
from lm_tools_bridge.protocol import inbound
from lm_tools_bridge.protocol.call_pattern import Pattern, derive_pattern
from lm_tools_bridge.protocol.inbound import Inbound
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.http.head_reader import ManagerHead
from workspace_server.methods.table import Answer, Methods

MAX_PATTERNS: Final = 4
"""Patterns kept per request head, for programs that send the same head with different bodies."""
LEARN_EVERY: Final = 64
"""Once a head had more unmatched calls than `MAX_PATTERNS`, only one in so many is learned.

Some programs write something new into every call; learning each of them would cost more than it saves.
"""


class _KnownCalls:
    """The known calls that come with one request head. The head names their tool.

    Attributes:
        view: the view under which they were learned.
        offered: the tool.
        patterns: their patterns.
        unmatched: how many calls matched no pattern.
    """

    __slots__ = ("offered", "patterns", "unmatched", "view")

    def __init__(self, view: View, offered: OfferedTool) -> None:
        self.view = view
        self.offered = offered
        self.patterns: tuple[Pattern, ...] = ()
        self.unmatched = 0


class RepeatedCalls:
    """Learns patterns of calls and answers calls that match one.

    Args:
        methods: answers the calls.
    """

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._by_head: dict[ManagerHead, _KnownCalls] = {}

    def answer(self, head: ManagerHead, body: bytes) -> Answer | None:
        """Answer a call that matches a known pattern; None for any other request."""
        known_calls = self._by_head.get(head)
        if known_calls is None:
            return None
        for pattern in known_calls.patterns:
            match = pattern.match(body)
            if match is not None:
                return self._methods.answer_repeated(
                    known_calls.view, known_calls.offered, match[0], match[1]
                )
        return None

    def learn(self, head: ManagerHead, request: McpRequest) -> None:
        """Learn the pattern of a call that was answered without a task, if its head has come before."""
        repeatable = self._methods.repeatable(request)
        if repeatable is None:
            return
        known_calls = self._by_head.get(head)
        if known_calls is None or known_calls.view is not repeatable[0]:
            if len(self._by_head) >= MAX_CACHED_HEADS:
                self._by_head.clear()
            known_calls = self._by_head[head] = _KnownCalls(*repeatable)
        known_calls.unmatched += 1
        if known_calls.unmatched <= MAX_PATTERNS or not known_calls.unmatched % LEARN_EVERY:
            pattern = _pattern(head, request)
            if pattern is not None:
                known_calls.patterns = (*known_calls.patterns[1 - MAX_PATTERNS :], pattern)


def _pattern(head: ManagerHead, request: McpRequest) -> Pattern | None:
    """The pattern of a call; None if a call with other values would not be read as the same request."""
    found = derive_pattern(request.message.body)
    if found is None:
        return None
    pattern, probe = found
    other = inbound.classify(head.fields, probe)
    return pattern if isinstance(other, Inbound) and _constant(other) == _constant(request.inbound) else None


def _constant(message: Inbound) -> tuple[object, ...]:
    """The parts of a message that must be equal in all calls of a pattern."""
    return message.era, message.revision, message.name, set(message.params), set(message.meta)
