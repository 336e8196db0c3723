"""Renders whole blocks of Markdown, by rich, as rows of a fixed width with colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.segment import Segment


def rows_of_block(markdown: str, columns: int) -> list[str]:
    """The rows of a block, each filled up to this many columns. The text holds no control characters."""
    rows = _rows(_markdown()(markdown), columns)
    while rows and not _text(rows[-1]).strip():
        rows.pop()
    while rows and not _text(rows[0]).strip():
        rows.pop(0)
    return _escaped(rows)


def _text(row: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in row)


def _rows(what: Any, columns: int) -> list[list[Segment]]:
    console = _console()
    return console.render_lines(what, console.options.update(width=columns), pad=True)


def _escaped(rows: Sequence[Sequence[Segment]]) -> list[str]:
    """The rows with escape sequences for their colours; all at once, since each printing takes long."""
    from rich.segment import Segment, Segments

    console = _console()
    with console.capture() as captured:
        console.print(Segments([segment for row in rows for segment in (*row, Segment.line())]), end="")
    return captured.get().split("\n")[:-1]


@cache
def _console() -> Console:
    import io

    from rich.console import Console  # the first reply needs it, not the prompt

    # with its size it does not ask the terminal for each row
    return Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", markup=False, emoji=False,
        highlight=False, legacy_windows=False, width=1000, height=1000,
    )  # fmt: skip


@cache
def _markdown() -> Callable[[str], Markdown]:
    from markdown_it import MarkdownIt
    from rich.markdown import Heading, Markdown
    from rich.text import Text

    class PlainHeading(Heading):
        """A heading at the left, without a box."""

        def __rich_console__(self, *_: Any) -> Any:
            self.text.justify = "left"
            yield Text.assemble(self.text, style="bold")

    # rich leaves out HTML and definitions of references: a reply that speaks of <b> would lose words
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")

    class OurMarkdown(Markdown):
        elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "heading_open": PlainHeading}

    # each new Markdown makes a parser of its own, which takes as long as a block
    empty = OurMarkdown("", hyperlinks=False)

    def parsed(markup: str) -> Markdown:
        document = copy(empty)
        document.markup, document.parsed = markup, parser.parse(markup)
        return document

    return parsed
