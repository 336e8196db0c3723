"""Groups the cached routes of calls with one request head, in sessions with the same profile.

`route_cache.py` chooses the group of a call, and makes the routes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from manager.route_cache.bound_route import BoundRoute
from manager.route_cache.cached_route import CachedRoute
from manager.routing.request_heads.pattern import HeadPattern
from manager.routing.state.session_table import Session

MAX_GROUP_ROUTES: Final = 32
"""Routes of one group. A session client's calls need one for each tool, as their heads do not name it."""
CACHED_MISSES: Final = 32
MISS_INTERVAL: Final = 64
"""After CACHED_MISSES misses in a row, only every MISS_INTERVAL-th miss is cached.

Some clients write something new into each call; caching all of these costs more than it saves.
"""


class RouteGroup:
    """The routes of one group of calls.

    Attributes:
        misses: calls in a row without a matching route; a match resets the count to 1.
    """

    __slots__ = ("_bound", "_heads", "misses")

    def __init__(self) -> None:
        self._bound: dict[CachedRoute, BoundRoute | None] = {}
        self._heads: HeadPattern | None = None
        self.misses = 0

    @property
    def routes(self) -> Collection[CachedRoute]:
        """The routes, oldest first: one for each tool and each form of its calls."""
        return self._bound.keys()

    def is_worth_caching(self) -> bool:
        """Count a miss; return whether the route of its call should be cached."""
        count, self.misses = self.misses, self.misses + 1
        return bool(count) and (count < CACHED_MISSES or not count % MISS_INTERVAL)

    def add(self, route: CachedRoute, replaces: CachedRoute | None) -> None:
        """Add a route; drop the invalid one that it replaces or, if the group is full, the oldest."""
        if replaces is not None:
            self._bound.pop(replaces, None)
        elif len(self._bound) >= MAX_GROUP_ROUTES:
            del self._bound[next(iter(self._bound))]
        self._bound[route] = None

    def bound_route(
        self, route: CachedRoute, session: Session | None, head: bytes, longest: int
    ) -> BoundRoute:
        """Bind one of the routes to a session, or reuse its last binding if that is for the same session.

        All connections of a session share a bound route, and so do all stateless clients: shared data stay in
        the processor's cache.

        Args:
            head: the head of a call, as received.
            longest: largest body in bytes that admission allows.
        """
        last = self._bound[route]
        if last is None or last.session is not session:
            heads = self._heads = self._heads or HeadPattern(head, longest)
            last = self._bound[route] = BoundRoute(route, session, heads)
        return last
