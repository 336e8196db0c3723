"""Decides which addresses a remote server may have, and resolves names to allowed addresses.

A URL in a configuration, and even more one that a server redirects or refers to, may lead to this machine,
its networks or the metadata service of a cloud. A name is resolved once per connection, every address is
checked, and the connection goes to a checked address, so a name that resolves differently a moment later
changes nothing.

Link-local and metadata addresses are never allowed, not even with `allow_private`: they hold credentials,
not MCP servers. A host written literally as `localhost`, `127.0.0.1` or `[::1]` in the configuration is
allowed without it; a name that resolves there is not.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of a name, as text; raises OSError."""

PORTS: Final = {"http": 80, "https": 443}
LITERAL_LOOPBACK: Final = {
    "localhost": (IPv4Address("127.0.0.1"), IPv6Address("::1")),
    "127.0.0.1": (IPv4Address("127.0.0.1"),),
    "::1": (IPv6Address("::1"),),
}
_METADATA: Final = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_PRIVATE: Final[tuple[IPv4Network | IPv6Network, ...]] = (
    *map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8")),
    *map(IPv6Network, ("fc00::/7", "fec0::/10", "::1/128")),
)
_NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?\Z")


_ADVICE: Final = "; set allow_private for this server if it is meant"


class AddressRefused(Exception):
    """A URL or all addresses behind it are not allowed. The text is for a person and holds no secret."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a URL leads: its origin. `host` is lower case, without brackets, ASCII."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """`scheme://host`, with the port where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if PORTS[self.scheme] == self.port else f":{self.port}")

    @property
    def is_literal_loopback(self) -> bool:
        """Whether the host is written as one of the three usual ways to say this machine."""
        return self.host in LITERAL_LOOPBACK


def parse_origin(url: str) -> Origin:
    """Where an `http` or `https` URL leads.

    Raises:
        AddressRefused: another scheme, user information, no host, or a host that is an address in a form only
            some readers understand (`0x7f.1`, `2130706433`, `0177.0.0.1`).
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("the URL cannot be read") from None
    if parts.scheme not in PORTS:
        raise AddressRefused("the URL must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("the URL must not contain a user name or password; use token or headers")
    return Origin(parts.scheme, _host(parts.hostname or ""), PORTS[parts.scheme] if port is None else port)


def _host(text: str) -> str:
    if ":" in text and "%" not in text:  # a zone makes it link-local
        try:
            return str(IPv6Address(text))
        except ValueError:
            raise AddressRefused("the host is no address") from None
    host = text if text.isascii() else _encoded(text)
    host = host.lower()
    if _NUMBER.match(host.rstrip(".").rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise AddressRefused("write the host as a name or as a.b.c.d in decimal numbers") from None
    if not _NAME.match(host):
        raise AddressRefused("the host is no name")
    return host


def _encoded(text: str) -> str:
    import idna  # its tables are large; such hosts are rare

    try:
        return idna.encode(text.lower()).decode("ascii")
    except idna.IDNAError:
        raise AddressRefused("the host is no name") from None


def refusal_reason(address: Address, allow_private: bool) -> str | None:
    """Why an address is refused; None if it is allowed."""
    for candidate in (address, *_embedded(address)):
        if candidate.is_link_local or candidate in _METADATA:
            return "is link-local or a metadata service"
        if candidate.is_multicast or candidate.is_unspecified or str(candidate) == "255.255.255.255":
            return "is no address of a server"
        private = any(candidate in network for network in _PRIVATE)
        if private and not allow_private:
            return "belongs to this machine or a private network"
        if not private and not candidate.is_global and candidate is not _shell(address):
            return "is reserved"
    return None


def _shell(address: Address) -> Address | None:
    """The address itself where it only wraps another one, which is checked instead."""
    return address if _embedded(address) else None


def _embedded(address: Address) -> tuple[Address, ...]:
    """IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address) or address == IPv6Address("::1") or int(address) == 0:
        return ()
    inner: list[Address | None] = [address.ipv4_mapped, address.sixtofour]
    inner += [] if address.teredo is None else list(address.teredo)
    if any(address in network for network in (*_NAT64, _COMPATIBLE, _TRANSLATED)):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return tuple(embedded for embedded in inner if embedded is not None)


def refused_literal(origin: Origin, *, allow_private: bool) -> str | None:
    """Why an address that is written in the URL is refused for good; None for names and what is allowed."""
    try:
        address = ip_address(origin.host)
    except ValueError:
        return None
    if origin.is_literal_loopback:
        return None
    reason = refusal_reason(address, allow_private)
    return None if reason is None else _refusal_text(address, reason)


def _refusal_text(address: Address, reason: str) -> str:
    is_permitted = refusal_reason(address, allow_private=True) is None
    return f"{address} {reason}{_ADVICE if is_permitted else ''}"


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Ask the system, in a thread."""
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in results]


async def allowed_addresses(
    origin: Origin, *, allow_private: bool, allow_literal: bool, resolver: Resolver = system_resolver
) -> list[str]:
    """The addresses of an origin that may be connected to, in the resolver's order.

    Args:
        origin: where to.
        allow_private: whether addresses of this machine and its networks are meant.
        allow_literal: whether `localhost` and its like are (the origin is written in the configuration).
        resolver: asked only for names.

    Raises:
        AddressRefused: there is none.
        OSError: the name cannot be resolved.
    """
    if origin.host in LITERAL_LOOPBACK and (allow_literal or allow_private):
        return [str(literal) for literal in LITERAL_LOOPBACK[origin.host]]
    try:
        candidates: Sequence[str] = [str(ip_address(origin.host))]
    except ValueError:
        candidates = await resolver(origin.host, origin.port)
    refused: str | None = None
    allowed: list[str] = []
    for text in dict.fromkeys(candidates):
        address = ip_address(text)
        reason = refusal_reason(address, allow_private)
        if reason is None:
            allowed.append(text)
        else:
            refused = refused or _refusal_text(address, reason)
    if allowed:
        return allowed
    if refused is None:
        raise OSError("the name has no address")
    raise AddressRefused(refused)
