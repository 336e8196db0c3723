"""Groups the cached routes of calls with one request head, in sessions with the same profile.

Which call is of which kind, and what a route is made of, is `route_cache.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from manager.route_cache.bound_route import BoundRoute
from manager.route_cache.cached_route import CachedRoute
from manager.routing.request_heads.pattern import HeadPattern
from manager.routing.state.session_table import Session

MAX_GROUP_ROUTES: Final = 32
"""Routes of one group: tools that are called, in the era whose heads do not name them."""
CACHED_MISSES: Final = 32
MISS_INTERVAL: Final = 64
"""From so many calls of a kind on that were not known, in a row, only each so many-th is learned from.

There are clients that write something new into each call: to learn from all would cost more than it saves.
"""


class RouteGroup:
    """What is known of such calls.

    Attributes:
        misses: calls that were not known, counted from one where others were known before them.
    """

    __slots__ = ("_bound", "_heads", "misses")

    def __init__(self) -> None:
        self._bound: dict[CachedRoute, BoundRoute | None] = {}
        self._heads: HeadPattern | None = None
        self.misses = 0

    @property
    def routes(self) -> Collection[CachedRoute]:
        """Theirs; each is for one tool, or for one manner to write its calls."""
        return self._bound.keys()

    def is_worth_caching(self) -> bool:
        """Whether to learn from a call that was not known, which is noted here."""
        count, self.misses = self.misses, self.misses + 1
        return bool(count) and (count < CACHED_MISSES or not count % MISS_INTERVAL)

    def add(self, route: CachedRoute, replaces: CachedRoute | None) -> None:
        """Know one more, in the place of one that does not hold any more, or else of the oldest."""
        if replaces is not None:
            self._bound.pop(replaces, None)
        elif len(self._bound) >= MAX_GROUP_ROUTES:
            del self._bound[next(iter(self._bound))]
        self._bound[route] = None

    def bound_route(
        self, route: CachedRoute, session: Session | None, head: bytes, longest: int
    ) -> BoundRoute:
        """How one of the routes is taken in a session.

        Connections of one session share it, as all do in the era without: what is one for all of them stays
        in the processor's cache.

        Args:
            head: of a call, as it came.
            longest: largest body in bytes that admission allows.
        """
        last = self._bound[route]
        if last is None or last.session is not session:
            heads = self._heads = self._heads or HeadPattern(head, longest)
            last = self._bound[route] = BoundRoute(route, session, heads)
        return last
