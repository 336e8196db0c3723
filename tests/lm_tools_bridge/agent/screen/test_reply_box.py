"""A reply is shown while it arrives, and its finished blocks take the place of their drafts."""

from __future__ import annotations

import time

import pyte
import pytest

from lm_tools_bridge.agent.screen import reply_box
from lm_tools_bridge.agent.screen.reply_box import Blank, Block, Code, Draft, ReplyBlocks, ReplyBox

MARKDOWN = (
    "Some **bold** text that is long enough to need more than one row of the box.\n"
    "And more.\n\n- one\n- two 日本語\n\n```python\nprint('hello')\n\nx = 1\n```\n\n## End\nDone."
)


def parts(text: str, size: int) -> list[object]:
    blocks = ReplyBlocks()
    found = [part for at in range(0, len(text), size) for part in blocks.feed(text[at : at + size])]
    return [part for part in [*found, *blocks.end()] if not isinstance(part, Draft)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_blocks_are_the_same_however_the_text_is_cut(size: int) -> None:
    assert parts(MARKDOWN, size) == [
        Block(MARKDOWN.partition("\n\n")[0]),
        Blank(True),
        Block("- one"),
        Block("- two 日本語"),
        Blank(True),
        Blank(False),
        Code("print('hello')"),
        Code(""),
        Code("x = 1"),
        Blank(False),
        Blank(True),
        Block("## End"),
        Block("Done."),
    ]


class Terminal:
    """A screen, and the reply that is drawn on it."""

    def __init__(self, columns: int = 40, rows: int = 24) -> None:
        self.size = (columns, rows)
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self.box = ReplyBox(lambda: self.size, reply_box.rows_of_block)

    def feed(self, text: str) -> None:
        self.draw(self.box.feed(text))

    def draw(self, printed: str) -> None:
        self._stream.feed(printed.replace("\n", "\r\n"))

    @property
    def shown(self) -> str:
        # a wide character takes two cells; pyte shows it in one of them
        return "\n".join(line.rstrip() for line in self.screen.display).strip()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_reply_ends_as_rendered_markdown_in_a_box(size: int) -> None:
    terminal = Terminal()
    for at in range(0, len(MARKDOWN), size):
        terminal.feed(MARKDOWN[at : at + size])
    terminal.draw(terminal.box.end())
    lines = terminal.shown.split("\n")
    assert lines[0] == "╭─ ASSISTANT ──────────────────────────╮"
    assert lines[1] == "│ Some bold text that is long enough   │"
    assert lines[-1] == "╰──────────────────────────────────────╯"
    assert "│  • one                               │" in lines
    assert "│ print('hello')                       │" in lines
    assert "**" not in terminal.shown
    assert "```" not in terminal.shown
    assert lines[-3:-1] == [
        "│ End                                  │",
        "│ Done.                                │",
    ]


def test_text_is_shown_before_its_block_is_whole() -> None:
    terminal = Terminal()
    terminal.feed("Hello, wor")
    assert terminal.shown.split("\n")[1] == "│ Hello, wor"
    terminal.feed("ld and **mo")
    assert terminal.shown.split("\n")[1] == "│ Hello, world and **mo"


def test_rows_that_have_left_the_screen_stay_as_they_are() -> None:
    terminal = Terminal(rows=6)
    for number in range(30):
        terminal.feed(f"**{number}** is a number that takes its own row\n")
    terminal.draw(terminal.box.end())
    assert terminal.shown.endswith("╯")
    assert "**29**" in terminal.shown


def test_a_terminal_of_another_size_keeps_what_it_has() -> None:
    terminal = Terminal()
    terminal.feed("A **word** and")
    terminal.size = (60, 24)
    terminal.screen.resize(24, 60)
    terminal.feed(" another\n\nNext *one*\n\n")
    terminal.draw(terminal.box.end())
    assert "A **word** and another" in terminal.shown
    assert "│ Next one " in terminal.shown
    assert terminal.shown.split("\n")[-1] == "╰" + "─" * 58 + "╯"


def test_control_sequences_of_a_reply_are_shown_and_not_executed() -> None:
    terminal = Terminal()
    printed = (
        terminal.box.feed("safe \x1b[2J\x1b]0;title\x07 \u202edcba \x9b31m `\x1b[8m`\n\n")
        + terminal.box.end()
    )
    assert "\x1b[2J" not in printed
    assert "\x1b]0" not in printed
    assert "\x07" not in printed
    assert "\x9b" not in printed
    assert "\x1b[8m" not in printed
    assert "\u202e" not in printed
    assert "\\x1b[2J" in printed.replace("\n", "")


def test_a_reply_without_text_shows_nothing() -> None:
    assert Terminal().box.end() == ""


def test_two_thousand_pieces_cost_little_beside_rendering() -> None:
    box = ReplyBox(lambda: (80, 24), lambda block, columns: [block[:columns].ljust(columns)])
    pieces = [f"word{number} " + ("\n\n" if number % 60 == 59 else "") for number in range(2000)]
    before = time.process_time()
    for piece in pieces:
        box.feed(piece)
    spent = time.process_time() - before
    assert spent < 0.25, f"{spent * 1000:.0f} ms"


@pytest.mark.parametrize("text", ["Use <b>bold</b> words", "<div>", "[one]: http://x/", "a <!-- b --> c"])
def test_html_and_references_are_shown_as_they_are(text: str) -> None:
    rows = reply_box.rows_of_block(text, 40)
    assert [row.rstrip() for row in rows] == [text]
