"""The project on the other host in the demonstration, and what the scripted model does in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.servers.models.formats.steps import Reply, call, say

QUESTION: Final = "Ship a lamp if there is one, and say how many are left."
ANSWER: Final = "A lamp is shipped; ten are left."
SHIPPED: Final = "shipped.txt"
_MANIFEST: Final = """description = "Ships one item of the stock."
script = "ship.py"

[parameters.item]
type = "string"
description = "What is shipped"
required = true
"""
_SCRIPT: Final = f"""import lmtb_tool

item = lmtb_tool.get_string("item")
with open("{SHIPPED}", "a") as file:
    file.write(item + "\\n")
lmtb_tool.return_string("shipped " + item)
"""


def make_project(root: Path) -> Path:
    """Make the project: a text, and a tool that writes a line into a file."""
    tool = root / ".lm-tools-bridge" / "tools" / "ship"
    tool.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "stock.txt").write_text("11 lamps\n2 ropes\n")
    (tool / "tool.toml").write_text(_MANIFEST)
    (tool / "ship.py").write_text(_SCRIPT)
    return root


def turns() -> tuple[Reply, ...]:
    """What the model does, one turn a request."""
    return (
        call("lm_readFile", {"filePath": "stock.txt"}),
        call("ship", {"item": "lamp"}),
        say(ANSWER),
    )
