"""Decides what a client's lists wait for, what they leave out, and how they are written, by its profile."""

from __future__ import annotations

import time

from manager.answers.exchange import Exchange
from manager.routing.client_needs import needs_of
from manager.routing.client_profiles import ClientProfile, ClientProfiles, discover_wait_s, list_wait_s
from manager.routing.client_traits import client_traits
from protocol import headers


class ListAdaptation:
    """Adapts lists to clients.

    Args:
        profiles: what clients can do.
        hides_own: whether lists leave out the tools of servers that a client starts itself.
    """

    def __init__(self, profiles: ClientProfiles, *, hides_own: bool) -> None:
        self._profiles = profiles
        self._hides_own = hides_own

    def headers(self, exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that tell the workspace server how long a list may wait, and what the client needs."""
        profile, session = self._profiles.of(*exchange.client), exchange.session
        opened_at = None if session is None else session.opened_at
        since_start_s = None if opened_at is None else time.monotonic() - opened_at
        return self._complete(profile, list_wait_s(profile.first_list_s, since_start_s))

    def discover_headers(self, exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
        """The same for `server/discover`, whose instructions name servers that wait for trust."""
        profile = self._profiles.of(*exchange.client)
        return self._complete(profile, discover_wait_s(profile.first_list_s))

    def _complete(self, profile: ClientProfile, wait_s: float) -> tuple[tuple[bytes, bytes], ...]:
        added = [_list_wait(wait_s), *needs_of(profile)]
        if traits := client_traits(profile).encode():
            added.append((headers.CLIENT_TRAITS.encode(), traits.encode()))
        if profile.own_files and self._hides_own:
            added.append((headers.OWN_FILES.encode(), ",".join(profile.own_files).encode()))
        return tuple(added)


def _list_wait(seconds: float) -> tuple[bytes, bytes]:
    return headers.LIST_WAIT.encode(), str(round(seconds * 1000)).encode()
