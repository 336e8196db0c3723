"""What this member knows of its team: hosts, offers, and which hosts get a call in which order. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from lm_tools_bridge.team.registry.entry import AliveEntry, HostEntry, OfferEntry

ENTRY_TTL_S: Final = 3 * 3600.0
"""Seconds after which the entry of a host that did not leave properly disappears."""

MOST_HOSTS: Final = 50_000
"""Hosts that are kept; a member without permissions at the server could add any number."""
_MOST_IGNORED: Final = 1000
"""Reasons that are kept for people; a member who forges entries could add any number."""


class Provider(NamedTuple):
    """A host that has an offer."""

    host: HostEntry
    offer: OfferEntry


@dataclass(frozen=True, slots=True)
class Offered:
    """One offer with all hosts that have it.

    Attributes:
        name: of the offer.
        providers: the hosts, by name.
    """

    name: str
    providers: tuple[Provider, ...]

    @property
    def is_uniform(self) -> bool:
        """Whether all hosts offer the same tools."""
        return len({(provider.offer.kind, provider.offer.digest) for provider in self.providers}) == 1


class _Listed(NamedTuple):
    """An offer of a host, and the text in which it is searched, in lower case."""

    offer: OfferEntry
    text: str


class TeamView:
    """The last good list of the team. It stays as it is while the registry cannot be reached.

    Attributes:
        ignored: hosts whose entries cannot be used -> why; not all, if there are very many.
    """

    def __init__(self) -> None:
        self.ignored: dict[str, str] = {}
        self._hosts: dict[str, HostEntry] = {}
        self._seen: dict[str, float] = {}
        self._providers: dict[str, dict[str, _Listed]] = {}
        self._stale_since: float | None = None
        self._is_listed = False

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def is_listed(self) -> bool:
        """Whether there was a complete list since the start."""
        return self._is_listed

    def stale_for(self, now: float) -> float | None:
        """Seconds since the registry was lost; None while it can be reached."""
        return None if self._stale_since is None else now - self._stale_since

    def lost(self, now: float) -> None:
        """The registry cannot be reached: from now on the list ages, and nothing expires."""
        if self._stale_since is None:
            self._stale_since = now

    def replace(self, new_view: TeamView) -> None:
        """Become a complete list of the registry, which can be reached again. `listed` is used up by that."""
        self.ignored, self._hosts = new_view.ignored, new_view._hosts
        self._seen, self._providers = new_view._seen, new_view._providers
        self._stale_since, self._is_listed = None, True

    def put(self, host: str, entry: HostEntry | str, now: float) -> None:
        """Take the entry of a host, or the reason why it is ignored."""
        self._forget(host)
        if not isinstance(entry, str) and len(self._hosts) >= MOST_HOSTS:
            entry = f"there are more than {MOST_HOSTS} hosts"
        if isinstance(entry, str):
            if len(self.ignored) < _MOST_IGNORED:
                self.ignored[host] = entry
            return
        self.ignored.pop(host, None)
        self._hosts[host], self._seen[host] = entry, now
        for offer in entry.offers:
            self._providers.setdefault(offer.name, {})[host] = _Listed(offer, _text_of(offer))

    def remove(self, host: str) -> None:
        """The host left the team, or its entry expired."""
        self._forget(host)
        self.ignored.pop(host, None)

    def expire(self, now: float) -> None:
        """Remove hosts whose entries were not renewed, unless nothing could be heard."""
        if self._stale_since is None:
            for host in [host_name for host_name, at in self._seen.items() if now - at > ENTRY_TTL_S]:
                self.remove(host)

    def hosts(self) -> Iterator[HostEntry]:
        """The hosts, in no order."""
        return iter(self._hosts.values())

    def providers(self, offer: str) -> tuple[Provider, ...]:
        """The hosts that have an offer, by name."""
        offered = self._providers.get(offer, {})
        return tuple(Provider(self._hosts[host], offered[host].offer) for host in sorted(offered))

    def names(self, pattern: str = "") -> list[str]:
        """The names of offers that contain a text in name, title or repository.

        Args:
            pattern: in lower case; "" for all.
        """
        names = []
        for (
            name,
            offered,
        ) in self._providers.items():  # a plain loop: there are 20,000 of them in a large team
            for entry in offered.values():
                if pattern in entry.text:
                    names.append(name)
                    break
        return sorted(names)

    def offers(self, names: Iterable[str]) -> list[Offered]:
        """Offers with their hosts, in the order of their names."""
        return [Offered(name, self.providers(name)) for name in names]

    def _forget(self, host: str) -> None:
        entry = self._hosts.pop(host, None)
        self._seen.pop(host, None)
        for offer in entry.offers if entry is not None else ():
            offered = self._providers[offer.name]
            offered.pop(host, None)
            if not offered:
                del self._providers[offer.name]


def _text_of(offer: OfferEntry) -> str:
    return f"{offer.name}\n{offer.title}\n{offer.repository}".lower()


MOST_CANDIDATES: Final = 16
"""Hosts of one offer whose heartbeats are looked at; others are not needed to find a free one."""
Lack = Literal["unknown", "dead", "draining", "full"]
"""Why no host can take a call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: its name spreads callers over hosts that are otherwise equal."""

    host: str
    zone: str = ""


def candidates(providers: Sequence[Provider], accepted: Collection[str] | None, me: Caller) -> list[Provider]:
    """The hosts to look at: those the user accepted, own zone first, in an order that differs by caller.

    Args:
        accepted: names of hosts, or None for any host.
    """
    accepted_providers = [
        provider for provider in providers if accepted is None or provider.host.host in accepted
    ]
    return sorted(accepted_providers, key=lambda provider: _nearness(provider, me))[:MOST_CANDIDATES]


def ordered(
    providers: Sequence[Provider],
    alive: Mapping[str, AliveEntry],
    mine: Mapping[str, int],
    me: Caller,
) -> list[str] | Lack:
    """The hosts that can take a call, best first: own zone, then the smallest part of its capacity in use.

    Args:
        providers: the candidates.
        alive: the last heartbeat of each; a host without one counts as dead.
        mine: calls of this member in flight at each host, which its heartbeat may not show yet.
        me: the caller.
    """
    living = [provider for provider in providers if provider.host.host in alive]
    if not living:
        return "dead" if providers else "unknown"
    willing = [provider for provider in living if not alive[provider.host.host].draining]
    if not willing:
        return "draining"
    used = {provider.host.host: _used(provider, alive[provider.host.host], mine) for provider in willing}
    free = [provider for provider in willing if used[provider.host.host] < 1]
    if not free:
        return "full"
    best = sorted(
        free,
        key=lambda provider: (
            provider.host.zone != me.zone,
            used[provider.host.host],
            _nearness(provider, me),
        ),
    )
    return [provider.host.host for provider in best]


def _used(provider: Provider, alive: AliveEntry, mine: Mapping[str, int]) -> float:
    return max(alive.in_flight, mine.get(provider.host.host, 0)) / provider.host.capacity


def _nearness(provider: Provider, me: Caller) -> tuple[bool, bytes]:
    digest = hashlib.blake2b(f"{me.host}\0{provider.host.host}".encode(), digest_size=8).digest()
    return provider.host.zone != me.zone, digest
