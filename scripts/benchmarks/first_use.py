"""Measures the seconds from `git clone` to the first forwarded call, for each way to install the program.

The times depend on the network and on the caches of pip and uv, which are those of this user. Each way gets a
clone, a home and folders of its own. If an installer is missing or fails, its row has the reason only.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from manager.client import Control
from manager.paths import Paths
from scripts.benchmarks import cold
from scripts.benchmarks.plan import ROOT, Plan
from scripts.benchmarks.section import Section
from scripts.benchmarks.table import table

STEP_S: Final = 600
PASSED_ON: Final = ("PATH", "LANG", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
PREFIXES: Final = ("PIP_", "UV_")
"""Variables that tell pip and uv where packages are."""


class NotInstallable(Exception):
    """This way to install does not work on this machine; the message is the reason."""


class Way(NamedTuple):
    """A way to install: the required program, the command in the clone, and the path of `lmtb` afterwards."""

    program: str
    command: tuple[str, ...]
    lmtb: str


class Times(NamedTuple):
    """The seconds that each step takes."""

    clone: float
    install: float
    up: float
    call: float


WAYS: Final[Mapping[str, Way]] = {
    "`uv tool install .`": Way("uv", ("uv", "tool", "install", "--quiet", "."), "{home}/bin/lmtb"),
    "`pipx install .`": Way("pipx", ("pipx", "install", "--quiet", "."), "{home}/bin/lmtb"),
    "`scripts/venv`": Way("sh", ("scripts/venv",), "{clone}/.venv/bin/lmtb"),
}


def run(plan: Plan) -> Section:
    """Measure each way to install."""
    rows: list[tuple[str, ...]] = []
    data: dict[str, object] = {}
    for number, (name, way) in enumerate(WAYS.items()):
        plan.say(f"install: {name}")
        folder = plan.folder / str(number)
        folder.mkdir()
        try:
            times = one_way(way, folder)
        except NotInstallable as why:
            rows.append((name, "-", "-", "-", "-", str(why)))
            continue
        data[name] = times._asdict()
        rows.append((name, *(f"{one:.1f} s" for one in times), f"{sum(times):.1f} s"))
    heads = ("way", "git clone", "install", "`lmtb up`", "first call", "together")
    return Section("install", table(heads, rows), data, is_single=True)


def one_way(way: Way, folder: Path) -> Times:
    """Measure one way to install, and stop the manager that it started.

    Raises:
        NotInstallable: a step failed.
    """
    if shutil.which(way.program) is None:
        raise NotInstallable(f"{way.program} is not on the PATH")
    home, clone = folder / "home", folder / "clone"
    home.mkdir()
    environ = environment(home)
    clone_s = seconds_of(
        lambda: run_step(["git", "clone", "--quiet", str(ROOT), str(clone)], folder, environ)
    )
    install_s = seconds_of(lambda: run_step(list(way.command), clone, environ))
    lmtb = way.lmtb.format(home=home, clone=clone)
    with stopped_at_the_end(lmtb, folder, environ):
        up_s = seconds_of(lambda: run_step([lmtb, "up"], folder, environ))
        call_s = seconds_of(lambda: first_call(folder, environ))
    return Times(clone_s, install_s, up_s, call_s)


def environment(home: Path) -> dict[str, str]:
    """The environment of a new user who has the package caches of this user."""
    known = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PREFIXES)
    }
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        **known,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(caches),
        "PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE") or str(config / "pip" / "pip.conf"),
        "UV_TOOL_BIN_DIR": str(home / "bin"),
        "UV_TOOL_DIR": str(home / "tools"),
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        **{f"LMTB_{one}_DIR": str(home / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")},
        "LMTB_HTTP_PORT": "0",
    }


def seconds_of(step: Callable[[], object]) -> float:
    """Run a step and return the seconds it takes."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def run_step(command: list[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Run a command.

    Raises:
        NotInstallable: it failed or took too long.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=STEP_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise NotInstallable(f"{command[0]}: {fault}") from fault
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise NotInstallable(f"{' '.join(command[:3])}: {lines[-1][:200]}")


def first_call(folder: Path, environ: Mapping[str, str]) -> None:
    """Call a tool in a new project."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    address = str(Control(Paths.of_user(environ).control_socket).get("/status")["address"])
    host = address.removeprefix("http://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=60)
    answer = cold.call(connection, f"/mcp?cwd={quote(str(project))}", "calculator", {"expression": "6 * 7"})
    connection.close()
    if answer["result"]["structuredContent"] != {"value": 42}:
        raise NotInstallable("the first call was not answered")


@contextmanager
def stopped_at_the_end(lmtb: str, folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Stop the manager at the end of the block."""
    try:
        yield
    finally:
        run_step([lmtb, "stop"], folder, environ)
