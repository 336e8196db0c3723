"""Whose a `ui://` address is, whatever servers choose."""

from __future__ import annotations

from support.servers.mcp_sources.app_source import PAGE, AppSource, page_tool
from support.servers.mcp_sources.tool_source import ScriptedSource, offerings, tool
from workspace_server.catalog.app_addresses import (
    NO_ADDRESSES,
    AppAddress,
    AppAddresses,
    app_addresses,
)

A, B, C = (ScriptedSource(identity=f"stdio:{name}", namespace=name) for name in "abc")


def addresses(before: AppAddresses = NO_ADDRESSES, **written: set[str]) -> AppAddresses:
    return AppAddresses({f"stdio:{name}": own for name, own in written.items()}, before.holders)


def test_three_servers_with_one_address_have_three() -> None:
    made = addresses(a={PAGE}, b={PAGE, "ui://b"}, c={PAGE})
    shown = [made.client_address(source, PAGE) for source in (A, B, C)]
    assert shown == [PAGE, "ui://b+time/page.html", "ui://c+time/page.html"]
    assert [made.find(uri) for uri in shown] == [AppAddress(f"stdio:{name}", PAGE) for name in "abc"]
    assert (made.client_address(B, "ui://b"), made.find("ui://b")) == (
        "ui://b",
        AppAddress("stdio:b", "ui://b"),
    )


def test_an_address_that_its_holder_gives_up_goes_to_the_next_and_stays_there() -> None:
    first = addresses(a={PAGE}, b={PAGE}, c={PAGE})
    second = addresses(first, b={PAGE}, c={PAGE})
    assert (second.client_address(B, PAGE), second.client_address(C, PAGE)) == (PAGE, "ui://c+time/page.html")
    third = addresses(second, a={PAGE}, b={PAGE}, c={PAGE})
    assert (third.client_address(A, PAGE), third.client_address(B, PAGE)) == ("ui://a+time/page.html", PAGE)


def test_an_address_in_the_form_of_moved_ones_is_always_its_servers_that_it_names() -> None:
    for order in (("a", "b"), ("b", "a")):
        made = addresses(**{name: {"ui://b+time/page.html"} if name == "a" else {PAGE} for name in order})
        assert made.find("ui://b+time/page.html") == AppAddress("stdio:b", PAGE)
        assert made.client_address(A, "ui://b+time/page.html") == "ui://a+b+time/page.html"
        assert made.find("ui://a+b+time/page.html") == AppAddress("stdio:a", "ui://b+time/page.html")


def test_a_server_that_took_such_an_address_before_the_other_came_loses_it() -> None:
    alone = addresses(a={"ui://b+time/page.html"}, c={PAGE})
    assert alone.client_address(A, "ui://b+time/page.html") == "ui://b+time/page.html"
    made = addresses(alone, a={"ui://b+time/page.html"}, c={PAGE}, b={PAGE})
    assert made.client_address(A, "ui://b+time/page.html") == "ui://a+b+time/page.html"
    assert made.find("ui://b+time/page.html") == AppAddress("stdio:b", PAGE)


def test_a_plus_that_names_no_server_means_nothing() -> None:
    made = addresses(a={"ui://x+y/z"}, b={"ui://x+y/z"})
    assert made.find("ui://x+y/z") == AppAddress("stdio:a", "ui://x+y/z")
    assert made.client_address(B, "ui://x+y/z") == "ui://b+x+y/z"
    assert made.find("ui://q+y/z") is None


def test_only_addresses_of_apps_count_from_lists_and_from_tools() -> None:
    source = AppSource("a", page_tool("show", "ui://a/1"), page_tool("odd", "https://example.org"), tool("t"))
    source.offered = offerings(resources=["ui://a/2", "file:///x"], templates=["ui://a/{n}", "x://{n}"])
    made = app_addresses([(source, source.tools), (B, [tool("t")])], NO_ADDRESSES)
    assert sorted(made.holders) == ["ui://a/1", "ui://a/2", "ui://a/{n}"]
    assert app_addresses([(B, [tool("t")])], made) is NO_ADDRESSES
    assert not NO_ADDRESSES
