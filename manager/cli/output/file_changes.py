"""Shows changes of files, before a verb writes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Final

import click

from lm_tools_bridge.text.printable import printable

# Nobody reads on in a longer line, and minified JSON would flood the terminal.
_LONGEST_LINE: Final = 2000
# A longer line of a file that may hold secrets is no setting that a person wrote, and is left out.
_LONGEST_PRIVATE_LINE: Final = 400
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def short(path: Path) -> str:
    """A path, with `~` for the home folder."""
    home = os.environ.get("HOME", "")
    text = str(path)
    return f"~{text[len(home) :]}" if len(home) > 1 and text.startswith(f"{home}/") else text


def diff_lines(
    file: Path, before: bytes | None, after: bytes | None, *, mask: Callable[[str], str] | None = None
) -> Iterator[str]:
    """A unified diff of a file; None stands for no file.

    With `mask`, which hides secrets, neither unchanged nor very long lines are shown: they may have more.
    """
    name = short(file)
    names = (name if before is not None else "/dev/null", name if after is not None else "/dev/null")
    context = 3 if mask is None else 0
    for line in unified_diff(_lines(before), _lines(after), *names, lineterm="", n=context):
        visible = line.removesuffix("\r")
        if mask is not None:
            visible = mask(visible)
            if len(line) > _LONGEST_PRIVATE_LINE:
                visible = f"{line[0]} (a line of {len(line) - 1} characters, which is not shown)"
        yield printable(visible, lines=True, width=_LONGEST_LINE)


def show_diff(
    file: Path, before: bytes | None, after: bytes | None, *, mask: Callable[[str], str] | None = None
) -> None:
    """Print a unified diff as `diff_lines` makes it, in colours on a terminal."""
    for number, line in enumerate(diff_lines(file, before, after, mask=mask)):
        head = number < 2
        fg = None if head else _COLOURS.get(line[:1])
        click.echo(click.style(line, fg=fg, bold=head or None) if fg or head else line)


def _lines(content: bytes | None) -> list[str]:
    lines = (content or b"").decode("utf-8", "replace").split("\n")
    last = lines.pop()
    # as diff does it: a last line without a line feed differs from one with it
    return [*lines, f"{last}  (no line feed at the end)"] if last else lines
