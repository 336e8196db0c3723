"""The line by which the other side introduces itself."""

from __future__ import annotations

import pytest

from lm_tools_bridge.remote_hosts.tunnel.greeting import (
    MAX_NOISE,
    Greeting,
    GreetingReader,
    NoGreeting,
    encode,
)

HELLO = Greeting(1, "1.2.3", "build", "ada")
NOISE = b"Welcome to build!\r\nLast login: never\nno newline at the end "


@pytest.mark.parametrize("noise", [b"", NOISE, b"LMTB", b"\xff\x00"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_it_is_found_behind_noise_however_it_is_cut(noise: bytes, size: int) -> None:
    reader, sent = GreetingReader(), noise + encode(HELLO) + b"frames"
    found, at = None, 0
    while found is None:
        found, at = reader.feed(sent[at : at + size]), at + size
    assert not isinstance(found, NoGreeting)
    greeting, rest = found
    assert greeting == HELLO
    assert rest + sent[at:] == b"frames"


def test_endless_noise_is_given_up() -> None:
    reader = GreetingReader()
    found = reader.feed(b"x" * (MAX_NOISE + 1))
    assert isinstance(found, NoGreeting)
    assert len(found.noise) <= 1024


@pytest.mark.parametrize("line", [b"LMTB-REMOTE {}\n", b"LMTB-REMOTE [[[[\n", b"LMTB-REMOTE " + b"x" * 5000])
def test_a_line_that_is_no_greeting_is_given_up(line: bytes) -> None:
    assert isinstance(GreetingReader().feed(line), NoGreeting)


def test_what_came_instead_is_kept_for_people() -> None:
    reader = GreetingReader()
    reader.feed(NOISE)
    assert reader.ended().noise == NOISE
