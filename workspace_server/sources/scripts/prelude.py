"""Runs a Python script tool: sets the import path, runs the script as `__main__`, reports how it failed.

A program of its own (`python -I prelude.py SCRIPT FOLDER LIBRARY…`) with few imports from the standard
library, because every call waits for it. The tool's folder comes first on the import path, then the
libraries.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType, TracebackType

# Characters: what a model needs of an exception.
MAX_MESSAGE = 2_000


def place_of(error: BaseException, folder: str) -> tuple[str, int] | None:
    """The innermost file below `folder` (relative) and the line where `error` occurred; None if outside."""
    place = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(folder + "/"):
            place = name[len(folder) + 1 :], trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(folder + "/"):
        place = str(error.filename)[len(folder) + 1 :], error.lineno or 0
    return place


def described(error: BaseException, folder: str) -> str:
    """The error in one line, such as `ValueError: x (script.py, line 3)`."""
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:  # noqa: BLE001  the `__str__` of the script's exception may raise anything
        message = ""
    text = type(error).__name__ + (f": {message[:MAX_MESSAGE]}" if message else "")
    place = place_of(error, folder)
    return f"{text} ({place[0]}, line {place[1]})" if place else text


def report(error: BaseException, folder: str) -> None:
    """Write the error to the result file for the server, and the traceback to standard error."""
    import json  # noqa: PLC0415  only needed for a failure

    name = os.environ.get("LMTB_TOOL_RESULT_FILE")
    if name:
        text = json.dumps({"raised": described(error, folder)})
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    # without the frame of `run`
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def run(script: str, folder: str, libraries: list[str]) -> None:
    """Run the script to its end; exit with code 1 if it raises an exception."""
    sys.path[:0] = [folder, *libraries]
    sys.argv[:] = [script]
    main = ModuleType("__main__")
    main.__dict__.update(__file__=script, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    try:
        with open(script, "rb") as file:
            source = file.read()
        exec(compile(source, script, "exec", dont_inherit=True), main.__dict__)  # noqa: S102  the purpose of this program
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  the caller gets every error of the script
        report(error, folder)
        sys.exit(1)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3:])
