"""The command line `lmtb`: the console script. One module for each verb, by subject; `verbs.py` lists them.

Nothing that short verbs import may be slow (aiohttp, pydantic, mcp, psutil): they answer in less than 0.1 s.
Here not even click is imported: it takes longer than the most frequent verb (`output/overview.py`).
"""

from __future__ import annotations

import os
import sys
from typing import Final

COMPLETE_VARIABLE: Final = "_LMTB_COMPLETE"
"""By this variable, a shell asks for completions."""


def main() -> None:
    """The console script."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # What a terminal cannot show must not end the program.
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:] == ["status"]:
        from manager.cli.output import overview

        if overview.status():
            return
    if COMPLETE_VARIABLE not in os.environ:
        from manager.features import run_quickly

        run_quickly(" ".join(sys.argv[1:]))
    from manager.cli.verbs import cli

    cli(complete_var=COMPLETE_VARIABLE)


def _replace_closed_streams() -> None:
    """Whoever started us may have closed them: what is opened next would get their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  stays open like the real one
