"""Renders commands and what they printed as the picture of a terminal (SVG)."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from scripts.walkthrough.sandbox import COLUMNS

_FONT: Final = 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace'
_COLOURS: Final = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
        (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196),
    ],
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A command, the folder in which it was typed, and its output with escape sequences."""

    folder: str
    line: str
    output: str


def picture(title: str, commands: Sequence[Shown]) -> str:
    """The SVG; the same for the same commands and output."""
    console = _console(COLUMNS)
    for number, command in enumerate(commands):
        if number:
            console.print()
        console.print(
            Text.assemble((command.folder, "bold cyan"), (" $ ", "bright_black"), (command.line, "bold"))
        )
        if output := command.output.replace("\r\n", "\n").strip("\n"):
            console.print(Text.from_ansi(output), soft_wrap=False)
    return _svg(console, title)


def screen_picture(title: str, lines: Sequence[Text], columns: int) -> str:
    """The SVG of a screen with these lines."""
    console = _console(columns)
    for line in lines:
        console.print(line, soft_wrap=False)
    return _svg(console, title)


def _console(columns: int) -> Console:
    return Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor",
        highlight=False, legacy_windows=False, _environ={},
    )  # fmt: skip


def _svg(console: Console, title: str) -> str:
    svg = console.export_svg(
        title=title, theme=_COLOURS, code_format=_without_downloads(), unique_id="terminal"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _without_downloads() -> str:
    """Rich's format, with fonts of the reader's machine: a picture loads nothing."""
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("font-family: Fira Code, monospace", f"font-family: {_FONT}")
    return form.replace("<svg ", '<svg role="img" xml:space="preserve" ', 1).replace(
        "<!-- Generated with Rich https://www.textualize.io -->", ""
    )
