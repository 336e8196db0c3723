"""Tests what a person sees who waits: a mark that moves, and is gone afterwards."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pyte
import pytest

from lm_tools_bridge.terminal import show as module
from lm_tools_bridge.terminal import waiting as waits
from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.waiting import waiting


class Terminal(io.StringIO):
    """A terminal that tells when a text appears on it."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.written:
            self.written.notify_all()
            return super().write(text)

    def has(self, text: str) -> bool:
        with self.written:
            return self.written.wait_for(lambda: text in self.getvalue(), 10)

    def screen(self) -> list[str]:
        screen = pyte.Screen(80, 24)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """Sits down at a terminal; to be called in the test, as pytest replaces the streams before it."""

    def sit(kind: str = "xterm", after_s: float = 0) -> Terminal:
        one = Terminal()
        monkeypatch.setenv("TERM", kind)
        monkeypatch.setattr(waits, "AFTER_S", after_s)
        monkeypatch.setattr(module.sys, "stdout", one)
        monkeypatch.setattr(module.sys, "stderr", one)
        return one

    return sit


def test_who_waits_sees_it_and_what_is_printed_meanwhile_stays(at_terminal: Callable[..., Terminal]) -> None:
    terminal = at_terminal()
    with waiting("asking\x1b the manager") as tell:
        assert terminal.has("asking\\x1b the manager")
        show("one line")
        tell("still asking")
        assert terminal.has("still asking")
        show("another line")
    assert terminal.screen() == ["one line", "another line"]
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h"), (
        "the cursor is back"
    )


def test_what_is_quick_shows_nothing(at_terminal: Callable[..., Terminal]) -> None:
    terminal = at_terminal(after_s=60)
    with waiting("asking"):
        pass
    assert terminal.getvalue() == ""


def test_a_block_within_another_one_shows_nothing_even_if_it_is_first(
    at_terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = at_terminal(after_s=60)
    with waiting("waiting for the servers"):
        monkeypatch.setattr(waits, "AFTER_S", 0)
        before = threading.active_count()
        with waiting("asking one of them") as tell:
            tell("still asking")
            assert threading.active_count() == before
    assert terminal.getvalue() == ""
    with waiting("asking"):
        assert terminal.has("asking")


def test_an_error_ends_it(at_terminal: Callable[..., Terminal]) -> None:
    terminal = at_terminal()

    def fail(seen: Callable[[str], bool]) -> None:
        with waiting("asking"):
            assert seen("asking")
            raise OSError

    with pytest.raises(OSError):
        fail(terminal.has)
    assert terminal.screen() == [] and not waits._shown


def test_a_terminal_without_a_cursor_gets_lines(
    at_terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = at_terminal("dumb")
    monkeypatch.setattr(waits, "EVERY_S", 0.01)
    with waiting("asking"):
        assert terminal.has("asking ...\nasking ...\n")
    assert "\x1b" not in terminal.getvalue()


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "AFTER_S", 0)
    monkeypatch.setattr(module.sys, "stderr", io.StringIO())
    before = threading.active_count()
    with waiting("asking") as tell:
        tell("more")
        assert threading.active_count() == before
    assert module.sys.stderr.getvalue() == ""
