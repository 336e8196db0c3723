"""Records the picture of the terminal agent: a real session with a scripted model, as a person sees it.

Usage: python -m scripts.walkthrough.agent_picture [--check]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyte
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from scripts.walkthrough.picture import screen_picture
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import agent_desk
from support.servers.models.formats.steps import call, say

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURE: Final = ROOT / "docs" / "agent.svg"
COLUMNS, ROWS = 84, 40
QUESTION: Final = "What do 7 apples cost at 0.35 each? Note it in orders.txt."
TURNS: Final = (
    call("calculator", {"expression": "7 * 0.35"}),
    call("os_assistant_run_shell_command", {"command": "echo 'apples: 2.45' >> orders.txt"}),
    say("Seven apples cost **2.45**.\n\n", "- noted in `orders.txt`\n"),
)


def record() -> str:
    """The picture."""
    with tempfile.TemporaryDirectory() as place, running_manager(Path(place) / "user") as manager:
        lines = _session(manager, Path(place))
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return screen_picture("lmtb agent", lines, COLUMNS)


def _session(manager: ManagerProcess, folder: Path) -> list[Text]:
    """The screen at the end of a turn."""
    with (
        agent_desk(manager, folder, *TURNS) as desk,
        desk.agent(columns=COLUMNS, rows=ROWS) as terminal,
    ):
        terminal.sees("HIL: ACTIVE")
        terminal.press(f"{QUESTION}\r")
        terminal.sees("Execute?")
        terminal.press("y\r")
        terminal.sees("noted in orders.txt")
        terminal.see(lambda shown: shown.rstrip().endswith("\n>"), "the prompt")
        return [_drawn(terminal.screen, row) for row in range(ROWS)]


def _drawn(screen: pyte.Screen, row: int) -> Text:
    text = Text()
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        colour = {"default": "", "brown": "yellow", "brightblack": "bright_black"}.get(cell.fg, cell.fg)
        text.append(cell.data, f"{colour}{' bold' if cell.bold else ''}".strip() or None)
    text.rstrip()
    return text


def main() -> int:
    """Record the picture, and write it or compare its text; the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="change nothing")
    options.add_argument("--output", type=Path, default=PICTURE)
    chosen = options.parse_args()
    drawn = record()
    if not chosen.check:
        chosen.output.write_text(drawn, encoding="utf-8")
    elif drawn != chosen.output.read_text("utf-8"):
        sys.stderr.write(f"{chosen.output} is out of date. Next step: scripts/pictures\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
