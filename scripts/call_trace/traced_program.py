"""Runs a module as `python -m` does, and notes each entry of a function of this project.

Usage: traced_program.py FOLDER -m MODULE [ARGUMENT …]    notes go to FOLDER/MODULE-PID.trace

Each note is a line: monotonic time, module file, function. The programs that the module starts with
`sys.executable` are traced as well, by FOLDER/python.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path
from types import FrameType

ROOT = f"{Path(__file__).resolve().parents[2]}/"
PACKAGES = tuple(ROOT + name + "/" for name in ("lm_tools_bridge", "manager", "workspace_server"))


def trace_entries(file: int) -> None:
    """Write a line to an open file for each function of the project that this thread enters."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGES):
            line = f"{time.monotonic():.6f} {path.removeprefix(ROOT)} {frame.f_code.co_name}\n"
            os.write(file, line.encode())

    sys.setprofile(note)


def main(folder: str, *arguments: str) -> None:
    """Run the module that the arguments name."""
    module, *rest = [argument for argument in arguments if argument not in {"-I", "-m"}]
    sys.executable = f"{folder}/python"
    sys.argv = [module, *rest]
    sys.path.insert(0, ROOT)  # where this project is not installed
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    trace_entries(os.open(f"{folder}/{module}-{os.getpid()}.trace", flags, 0o600))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
