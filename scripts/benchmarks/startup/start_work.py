"""Measures the processor time of starts, in units of the start of a bare aiohttp server in the same run.

Such a server is what a start is made of: an interpreter, modules, and a first answer. So neither the speed of
the machine nor its load changes the ratio by much. Linux only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.benchmarks.environment.processes import processor_s
from scripts.benchmarks.startup import fresh_start

TURNS: Final = 7
"""Starts of each; the least disturbed one counts, and one of seven is rarely disturbed."""
READY_S: Final = 60.0
BARE_SERVER: Final = """
import sys
from aiohttp import web

async def answer(request):
    await request.read()
    return web.Response(text="{}", content_type="application/json")

app = web.Application()
app.router.add_post("/mcp", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""


def measure_starts(folder: Path, turns: int = TURNS) -> tuple[float, float]:
    """The seconds of processor time until the first answer: of a bare aiohttp server, and of a manager."""
    folder.mkdir()
    bare, manager = [], []
    for number in range(turns):
        port = str(fresh_start.free_port())
        bare.append(_used_until_answer(["-c", BARE_SERVER, port], int(port), folder / f"bare-{number}"))
        words = ["-m", "manager", "serve", "--http-port", port]
        manager.append(_used_until_answer(words, int(port), folder / f"manager-{number}"))
    return min(bare), min(manager)


def _used_until_answer(words: Sequence[str], port: int, home: Path) -> float:
    home.mkdir()
    places = {f"LMTB_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "STATE", "RUNTIME")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **places}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", *words], env=environ, cwd=home, stdout=log, stderr=log
        )
    deadline = time.monotonic() + READY_S
    try:
        while not fresh_start.answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((home / "log").read_text("utf-8", "replace"))
            time.sleep(0.002)
        return processor_s([process.pid])
    finally:
        process.terminate()
        process.wait()
