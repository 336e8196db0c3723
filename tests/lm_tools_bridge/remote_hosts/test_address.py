"""Addresses of projects on other hosts."""

from __future__ import annotations

import pytest

from lm_tools_bridge.remote_hosts.address import (
    Host,
    InvalidAddress,
    RemoteAddress,
    is_name,
    parse_address,
)

BUILD = Host("ssh", "build", "ada", 2222)
NAMED = {"build": BUILD}


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("ssh://build/srv/app", Host("ssh", "build"), "/srv/app"),
        ("ssh://ada@build.example.org:2222/work", Host("ssh", "build.example.org", "ada", 2222), "/work"),
        ("ssh://[::1]:22/work", Host("ssh", "[::1]", None, 22), "/work"),
        ("ssh://build", Host("ssh", "build"), "/"),
        ("ssh://build/", Host("ssh", "build"), "/"),
        ("ssh:/build/work", Host("ssh", "build"), "/work"),
        ("  ssh://build/work  ", Host("ssh", "build"), "/work"),
        ("ssh://build/with%20blank/100%25", Host("ssh", "build"), "/with blank/100%"),
        ("docker://web_1/srv", Host("docker", "web_1"), "/srv"),
        ("podman://web.1/srv", Host("podman", "web.1"), "/srv"),
        ("wsl://Ubuntu-22.04/home/ada", Host("wsl", "Ubuntu-22.04"), "/home/ada"),
        ("kubectl://team/pod-0/srv/app", Host("kubectl", "team/pod-0"), "/srv/app"),
        ("build:/srv/100%25", BUILD, "/srv/100%25"),
    ],
)
def test_an_address_names_a_host_and_a_folder_there(text: str, host: Host, path: str) -> None:
    assert parse_address(text, NAMED) == RemoteAddress(host, path)


@pytest.mark.parametrize(
    "text",
    [
        "ssh://-oProxyCommand=touch/x",
        "ssh://-l@build/x",
        "ssh://ada@-build/x",
        "ssh://build;id/x",
        "ssh://build $(id)/x",
        "ssh://build:0/x",
        "ssh://build:65536/x",
        "ssh://build:-1/x",
        "ssh://a@b@c/x",
        "docker://--privileged/x",
        "docker://a b/x",
        "podman://-it/x",
        "wsl://-e/x",
        "kubectl://team",
        "kubectl://team/-pod/x",
        "kubectl://Team/pod/x",
        "ssh://build/a%00b",
        "ssh://build/" + "a" * 5000,
        "build:/a\0b",
    ],
)
def test_a_part_that_could_be_an_option_or_a_command_is_refused(text: str) -> None:
    assert isinstance(parse_address(text, NAMED), InvalidAddress)


@pytest.mark.parametrize(
    "text",
    ["/srv/app", "file:///work", "C:/work", "c:\\work", "other:/work", "build:work", "http://x/y", ""],
)
def test_other_texts_are_no_remote_addresses(text: str) -> None:
    assert parse_address(text, NAMED) is None


def test_an_address_reads_as_it_was_parsed() -> None:
    for text in ("ssh://ada@build:2222/work", "kubectl://team/pod/srv", "docker://web/"):
        assert str(parse_address(text, {})) == text


def test_names_of_hosts_are_words_and_no_schemes() -> None:
    assert is_name("build-1.lan")
    assert not any(map(is_name, ("ssh", "file", "b", "-build", "a b", "a/b", "a:b", "")))
