"""Calls that come with one head, in sessions that say the same: their routes, and who takes these now.

Which call is of which kind, and what a route is made of, is `route_cache.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from manager.route_cache.bound_route import Passage
from manager.route_cache.cached_route import FastRoute
from manager.routing.request_heads.pattern import HeadPattern
from manager.routing.state.session_table import Session

TOOLS: Final = 32
"""Routes of one kind: tools that are called, in the era whose heads do not name them."""
EAGER: Final = 32
RARELY: Final = 64
"""From so many calls of a kind on that were not known, in a row, only each so many-th is learned from.

There are clients that write something new into each call: to learn from all would cost more than it saves.
"""


class Kind:
    """What is known of such calls.

    Attributes:
        unknown: calls that were not known, counted from one where others were known before them.
    """

    __slots__ = ("_heads", "_taken", "unknown")

    def __init__(self) -> None:
        self._taken: dict[FastRoute, Passage | None] = {}
        self._heads: HeadPattern | None = None
        self.unknown = 0

    @property
    def routes(self) -> Collection[FastRoute]:
        """Theirs; each is for one tool, or for one manner to write its calls."""
        return self._taken.keys()

    def is_worth_learning(self) -> bool:
        """Whether to learn from a call that was not known, which is noted here."""
        count, self.unknown = self.unknown, self.unknown + 1
        return bool(count) and (count < EAGER or not count % RARELY)

    def learn(self, route: FastRoute, instead_of: FastRoute | None) -> None:
        """Know one more, in the place of one that does not hold any more, or else of the oldest."""
        if instead_of is not None:
            self._taken.pop(instead_of, None)
        elif len(self._taken) >= TOOLS:
            del self._taken[next(iter(self._taken))]
        self._taken[route] = None

    def passage(self, route: FastRoute, session: Session | None, head: bytes, longest: int) -> Passage:
        """How one of the routes is taken in a session.

        Connections of one session share it, as all do in the era without: what is one for all of them stays
        in the processor's cache.

        Args:
            head: of a call, as it came.
            longest: bytes of a body that the door lets in.
        """
        last = self._taken[route]
        if last is None or last.session is not session:
            heads = self._heads = self._heads or HeadPattern(head, longest)
            last = self._taken[route] = Passage(route, session, heads)
        return last
