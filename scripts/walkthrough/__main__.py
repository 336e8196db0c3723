"""Records the terminal picture of the README. Files of its project are those of the tutorial.

Exit code 1: a command failed, or with --check the picture is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from scripts.walkthrough import fixed_figures
from scripts.walkthrough.page import File, steps
from scripts.walkthrough.picture import Shown, picture
from scripts.walkthrough.sandbox import Sandbox, sandbox

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURE: Final = ROOT / "docs" / "terminal.svg"
FOLDER: Final = "shop"
COMMANDS: Final = {
    "lmtb up": "",
    "lmtb client add claude-code --yes": "",
    "lmtb trust": "y",
    """lmtb call stock__count '{"item": "apple"}'""": "",
    "lmtb status": "",
}
"""Command lines, and the answers to what they ask."""
FILES: Final = ("shop/stock.py", "shop/.mcp.json")


class CommandFailed(Exception):
    """A command of the picture ended with an error; with what it printed."""


def record(user: Sandbox) -> str:
    """The picture of the commands, typed by this user."""
    for step in steps(ROOT / "docs" / "tutorial.md"):
        if isinstance(step, File) and step.path in FILES:
            user.write(step.path, step.text)
    user.type(f"mkdir {FOLDER}/.git; cd {FOLDER}")
    shown = []
    for line, answer in COMMANDS.items():
        done = user.type(line, answer)
        if done.code:
            raise CommandFailed(f"$ {line}\n{done.text}")
        shown.append(Shown(f"~/{FOLDER}", line, _masked(done.raw)))
    return picture(f"~/{FOLDER}", shown)


def _masked(output: str) -> str:
    """The output without what differs from machine to machine."""
    output = re.sub(r"(program: )\S+/python3\S*", r"\1/usr/bin/python3", output)
    return output.replace(str(ROOT), "~/lm-tools-bridge")


def main() -> int:
    """Record the picture, and write or compare it; the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--check", action="store_true", help="change nothing")
    options.add_argument("--output", type=Path, default=PICTURE, help=f"default: {PICTURE.relative_to(ROOT)}")
    chosen = options.parse_args()
    try:
        with sandbox("-I", str(Path(fixed_figures.__file__)), colours=True) as user:
            drawn = record(user)
    except CommandFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    if not chosen.check:
        chosen.output.write_text(drawn, encoding="utf-8")
    elif drawn != chosen.output.read_text("utf-8"):
        sys.stderr.write(f"{chosen.output} is out of date. Next step: scripts/pictures\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
