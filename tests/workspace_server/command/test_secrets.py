"""Secrets at the command line: in by a prompt or a pipe, out never."""

from __future__ import annotations

import importlib
import stat
from types import ModuleType

import pytest

from support.projects.command_home import Home

VALUE = "s3cret-canary"


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's keyring is not for tests."""
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> ModuleType:
        if name == "keyring":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


def test_a_secret_is_stored_listed_and_removed(home: Home) -> None:
    assert home.run("secrets", "list").output == "No secret is stored.\n"
    assert home.run("secrets", "set", "GH", "--stdin", text=f"{VALUE}\n").exit_code == 0
    assert home.run("secrets", "list").output == "GH\n"
    assert home.json("secrets", "list") == {"ok": True, "keys": ["GH"]}
    assert home.run("secrets", "delete", "GH").exit_code == 0
    assert home.run("secrets", "list").output == "No secret is stored.\n"
    again = home.run("secrets", "delete", "GH")
    assert again.exit_code == 1 and "lmtb secrets list" in again.output


def test_the_value_is_kept_without_the_line_end_of_echo_only(home: Home) -> None:
    import asyncio

    from workspace_server.secrets.store import open_store

    for text, kept in (("a\n", "a"), ("a\r\n", "a"), (" a \n\n", " a \n"), ("ä", "ä")):
        home.run("secrets", "set", "K", "--stdin", text=text)
        assert asyncio.run(open_store(home.state_dir, {}).get("K")) == kept


def test_no_verb_shows_a_value(home: Home) -> None:
    shown = home.run("secrets", "set", "GH", "--stdin", text=VALUE).output
    shown += home.run("secrets", "list").output + home.run("secrets", "delete", "GH").output
    assert VALUE not in shown


def test_a_value_is_no_argument(home: Home) -> None:
    assert home.run("secrets", "set", "GH", VALUE).exit_code == 2


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("GH", b"", "empty"),
        ("GH", b"\n", "empty"),
        ("GH", b"\xff\xfe", "not text"),
        ("GH", b"x" * (1024 * 1024 + 1), "too long"),
        ("GH", b"x" * (128 * 1024), "at most"),
        ("bad key!", b"x", "expected a name"),
    ],
)
def test_what_cannot_be_stored_is_refused(home: Home, key: str, text: bytes, said: str) -> None:
    result = home.run("secrets", "set", key, "--stdin", text=text)
    assert result.exit_code == 1
    assert said in result.stderr and "Next step:" in result.stderr
    assert home.run("secrets", "list").output == "No secret is stored.\n"


def test_without_a_terminal_the_way_is_said(home: Home) -> None:
    result = home.run("secrets", "set", "GH", text=VALUE)
    assert result.exit_code == 1 and "--stdin" in result.stderr


def test_a_person_types_a_value_that_is_not_shown(home: Home) -> None:
    with home.at_terminal("secrets", "set", "GH") as person:
        person.read_until(b"(not shown):")
        while person.echoes():
            assert person.process.poll() is None
        person.type(f"{VALUE}\n")
        assert VALUE not in person.read_until(b"Stored GH.")
        assert person.ends_with() == 0
    assert home.run("secrets", "list").output == "GH\n"
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in home.state_dir.rglob("*")}
    assert modes == {0}
