"""Runs a Python script tool: sets the import path, runs the script as `__main__`, reports how it failed.

A program of its own (`python -I prelude.py SCRIPT FOLDER LIBRARY…`) with few imports from the standard
library, because every call waits for it. The tool's folder comes first on the import path, then the
libraries.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType, TracebackType

MAX_MESSAGE = 2_000


def place_of(error: BaseException, folder: str) -> tuple[str, int] | None:
    """File, relative to `folder`, and line where a script failed; None where it was not in there."""
    found = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(folder + "/"):
            found = name[len(folder) + 1 :], trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(folder + "/"):
        found = str(error.filename)[len(folder) + 1 :], error.lineno or 0
    return found


def described(error: BaseException, folder: str) -> str:
    """`ValueError: x (script.py, line 3)`."""
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:  # noqa: BLE001  the script's own exception, whose text may fail in any way
        message = ""
    text = type(error).__name__ + (f": {message[:MAX_MESSAGE]}" if message else "")
    place = place_of(error, folder)
    return f"{text} ({place[0]}, line {place[1]})" if place else text


def report(error: BaseException, folder: str) -> None:
    """Leave for the server what went wrong; the traceback goes to standard error as usual."""
    import json  # noqa: PLC0415  only needed where something went wrong

    name = os.environ.get("LMTB_TOOL_RESULT_FILE")
    if name:
        text = json.dumps({"raised": described(error, folder)})
        with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123  pathlib takes longer to load
            file.write(text)
    trace = (
        error.__traceback__.tb_next if error.__traceback__ is not None else None
    )  # without the frame of `run`
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def run(script: str, folder: str, libraries: list[str]) -> None:
    """Run the script to its end; exits with 1 where an exception came out of it."""
    sys.path[:0] = [folder, *libraries]
    sys.argv[:] = [script]
    main = ModuleType("__main__")
    main.__dict__.update(__file__=script, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    try:
        with open(script, "rb") as file:  # noqa: PTH123  as above
            source = file.read()
        exec(compile(source, script, "exec", dont_inherit=True), main.__dict__)  # noqa: S102  its purpose
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, its caller reads about it
        report(error, folder)
        sys.exit(1)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3:])
