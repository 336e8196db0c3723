"""Draws the box of a reply while it arrives: drafts as they come, replaced by whole blocks once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rich.cells import cell_len

from lm_tools_bridge.agent.interaction import Box
from lm_tools_bridge.agent.screen import boxes
from lm_tools_bridge.agent.screen.terminal.reply_blocks import Block, Code, Draft, Part, ReplyBlocks

_CODE: Final = "\x1b[36m{}\x1b[0m"
_INVISIBLE: Final = str.maketrans("", "", "\r\ufe0e\ufe0f\u200d")
"""What changes how an emoji looks, and the other half of a line's end: not worth an escape in prose."""


class ReplyBox:
    """One reply on a terminal.

    Args:
        size: the terminal's columns and rows, now.
        rows_of_block: the coloured rows of a block, filled up to a number of columns.
        heading: the style of the first line, with `{}` for the line.
    """

    def __init__(
        self,
        size: Callable[[], tuple[int, int]],
        rows_of_block: Callable[[str, int], list[str]],
        heading: str = "{}",
    ) -> None:
        self._size = size
        self._heading = heading
        self._rows_of_block = rows_of_block
        self._blocks = ReplyBlocks()
        self._total = 0
        self._inner = 0
        self._drawn_for = (0, 0)
        self._rows = 0
        self._used = 0

    def feed(self, text: str) -> str:
        """What to print for a piece of the reply."""
        printed = [] if self._total else [self._begin()]
        visible = boxes.shown(text.translate(_INVISIBLE))
        printed.extend(piece for part in self._blocks.feed(visible) for piece in self._drawn(part))
        return "".join(printed)

    def end(self) -> str:
        """What to print at its end; nothing if nothing came."""
        if not self._total:
            return ""
        printed = [piece for part in self._blocks.end() for piece in self._drawn(part)]
        printed.extend(self._replace_drafts([]))
        return "".join([*printed, boxes.bottom(self._total), "\n"])

    def _begin(self) -> str:
        self._drawn_for = self._size()
        self._total = boxes.width(self._drawn_for[0])
        self._inner = self._total - 4
        return f"{self._heading.format(boxes.top(Box.ASSISTANT, self._total))}\n"

    def _drawn(self, part: Part) -> Iterator[str]:
        if isinstance(part, Draft):
            yield from self._draft(part.text)
        elif isinstance(part, Block):
            yield from self._replace_drafts(self._rows_of_block(part.markdown, self._inner))
        elif isinstance(part, Code):
            rows = boxes.wrapped(part.line, self._inner)
            yield from self._replace_drafts([self._filled(row, _CODE) for row in rows])
        else:
            yield from self._replace_drafts([self._filled("")] if part.shows else [])

    def _filled(self, row: str, style: str = "{}") -> str:
        return style.format(row) + " " * (self._inner - cell_len(row))

    def _draft(self, text: str) -> Iterator[str]:
        for at, line in enumerate(text.split("\n")):
            if at:
                yield self._close_row()
            remainder = line
            while remainder:
                if not self._rows or self._used < 0:
                    yield self._open_row()
                head = boxes.cut(remainder, self._inner - self._used)
                yield head
                self._used += cell_len(head)
                remainder = remainder[len(head) :]
                if remainder:
                    yield self._close_row()

    def _open_row(self) -> str:
        self._rows += 1
        self._used = 0
        return "│ "

    def _close_row(self) -> str:
        opened = "" if self._rows and self._used >= 0 else self._open_row()
        filled = " " * (self._inner - self._used)
        self._used = -1
        return f"{opened}{filled} │\n"

    def _replace_drafts(self, rows: list[str]) -> Iterator[str]:
        """Take away the drafts, if all of them are still on the screen as they were drawn, for these rows."""
        is_open = self._rows > 0 and self._used >= 0
        up = self._rows - is_open
        if self._rows and (self._size() != self._drawn_for or up >= self._drawn_for[1] - 1):
            # a terminal of another size has wrapped them anew, or they have left it: they stay
            if is_open:
                yield self._close_row()
            self._take_size()
        else:
            if self._rows:
                yield f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"
            for row in rows:
                yield f"│ {row} │\n"
        self._rows = 0
        self._used = 0

    def _take_size(self) -> None:
        self._drawn_for = self._size()
        self._total = boxes.width(self._drawn_for[0])
        self._inner = self._total - 4
