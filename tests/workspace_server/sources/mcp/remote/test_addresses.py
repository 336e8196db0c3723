"""Which addresses a remote server may have."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from workspace_server.sources.mcp.remote.addresses import (
    AddressRefused,
    Resolver,
    allowed_addresses,
    parse_origin,
    refusal_reason,
)

PUBLIC = "93.184.216.34"


async def names(_host: str, _port: int) -> Sequence[str]:
    raise AssertionError("an address needs no resolver")


def resolving_to(*addresses: str) -> Resolver:
    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return resolver


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com/mcp",
        "http:///mcp",
        "https://user:password@example.com/",
        "https://user@example.com/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1.:99999/",
        "http://127.0.0.01/",
        "http://1.2.3.4.5/",
        "http://[fe80::1%25eth0]/",
        "http://[::1",
        "http://１２７.0.0.1/",
        "http://exa mple.com/",
        "http://example.com\\@127.0.0.1/",
        "http://%31%32%37.0.0.1/",
    ],
)
def test_urls_that_readers_understand_differently_are_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        parse_origin(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.COM/mcp?x=1", "https://example.com"),
        ("https://example.com:443/", "https://example.com"),
        ("http://example.com:8080/", "http://example.com:8080"),
        ("http://[::1]:9/", "http://[::1]:9"),
        ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]"),
        ("https://größe.example/", "https://xn--gre-6ka8i.example"),
    ],
)
def test_a_url_is_reduced_to_its_origin(url: str, origin: str) -> None:
    assert parse_origin(url).origin == origin


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1", "fec0::1",
     "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::",
     "::ffff:0:127.0.0.1"],
)  # fmt: skip
def test_private_addresses_in_any_disguise_need_permission(address: str) -> None:
    assert refusal_reason(ip_address(address), False) is not None
    assert refusal_reason(ip_address(address), True) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.1.1", "fe80::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::",
     "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
     "240.0.0.1", "192.0.2.1", "2001:db8::1"],
)  # fmt: skip
def test_metadata_and_meaningless_addresses_are_never_allowed(address: str) -> None:
    assert refusal_reason(ip_address(address), True) is not None


@pytest.mark.parametrize("address", [PUBLIC, "2606:4700::1111", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal_reason(ip_address(address), False) is None


@pytest.mark.parametrize("url", ["http://localhost:1/", "http://127.0.0.1:1/", "http://[::1]:1/"])
async def test_localhost_is_allowed_if_the_configuration_names_it(url: str) -> None:
    place = parse_origin(url)
    assert await allowed_addresses(place, allow_private=False, allow_literal=True, resolver=names)
    if place.host == "localhost":
        return
    with pytest.raises(AddressRefused):
        await allowed_addresses(place, allow_private=False, allow_literal=False, resolver=names)


@pytest.mark.parametrize("host", ["127.0.0.2", "169.254.169.254", "10.0.0.1"])
async def test_no_other_private_address_is_allowed_by_name(host: str) -> None:
    with pytest.raises(AddressRefused):
        await allowed_addresses(
            parse_origin(f"http://{host}/"), allow_private=False, allow_literal=True, resolver=names
        )


async def test_a_name_that_resolves_to_this_machine_is_refused() -> None:
    """Only a literal address or `localhost` counts as permission, not a name that resolves to it."""
    place = parse_origin("http://rebind.example/")
    with pytest.raises(AddressRefused, match="allow_private"):
        await allowed_addresses(
            place, allow_private=False, allow_literal=True, resolver=resolving_to("127.0.0.1", "::1")
        )
    with pytest.raises(AddressRefused):
        await allowed_addresses(
            place, allow_private=True, allow_literal=True, resolver=resolving_to("169.254.169.254")
        )


async def test_of_several_addresses_the_allowed_ones_are_used() -> None:
    place = parse_origin("http://mixed.example/")
    resolver = resolving_to("10.0.0.1", PUBLIC, PUBLIC)
    assert await allowed_addresses(place, allow_private=False, allow_literal=True, resolver=resolver) == [
        PUBLIC
    ]


async def test_a_name_without_address_is_no_refusal() -> None:
    with pytest.raises(OSError, match="no address"):
        await allowed_addresses(
            parse_origin("http://x.example/"),
            allow_private=False,
            allow_literal=True,
            resolver=resolving_to(),
        )
