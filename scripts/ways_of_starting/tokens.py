"""Counts tokens with o200k_base, by the package from npm that `scripts/agents` installs beside the agents."""

from __future__ import annotations

import subprocess
from pathlib import Path

_PROGRAM = """
const { Tiktoken } = require("js-tiktoken/lite");
const encoder = new Tiktoken(require("js-tiktoken/ranks/o200k_base"));
process.stdout.write(String(encoder.encode(require("fs").readFileSync(0, "utf8"), [], []).length));
"""


def count(text: str, modules: Path) -> int:
    """The tokens of a text; `modules` is the folder in which npm has installed."""
    done = subprocess.run(
        ["node", "-e", _PROGRAM], cwd=modules, input=text.encode(), capture_output=True, check=True,
    )  # fmt: skip
    return int(done.stdout)
