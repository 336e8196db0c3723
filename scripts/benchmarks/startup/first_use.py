"""Measures the seconds from `git clone` to the first forwarded call, for each way to install the program.

Each way gets a clone, a home and folders of its own, and is measured twice: with empty caches of pip and uv,
and with those of the first time. uv and pipx are installed into `.bench/` if they are not on the PATH. All
commands run at a terminal, because the longest time without a sign of life is measured, too. If a way fails,
its row has the reason only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from scripts.benchmarks.plan import RESULTS, ROOT, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup import at_terminal

STEP_S: Final = 600
PASSED_ON: Final = ("LANG", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
PREFIXES: Final = ("PIP_", "UV_")
"""Variables that tell pip and uv where packages are."""
SILENCE_GOAL_S: Final = 2.0
_HEADS: Final = (
    "way",
    "caches",
    "git clone",
    "install",
    "`lmtb up`",
    "first call",
    "together",
    "longest silence",
    "goal",
)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotInstallable(Exception):
    """This way to install does not work on this machine; the message is the reason."""


class Way(NamedTuple):
    """A way to install.

    Attributes:
        installers: programs that have to be on the PATH.
        command: what is run in the clone.
        lmtb: the path of `lmtb` afterwards.
        goal_s: how long all of it may take with empty caches; None without a goal.
    """

    installers: tuple[str, ...]
    command: tuple[str, ...]
    lmtb: str
    goal_s: float | None = None


class Times(NamedTuple):
    """The seconds that each step takes, and the longest silence at the terminal."""

    clone: float
    install: float
    up: float
    call: float
    silence: float

    @property
    def together(self) -> float:
        """From the beginning to the first answer."""
        return self.clone + self.install + self.up + self.call


_PIP: Final = "python3 -m venv {home}/venv && {home}/venv/bin/pip install ."
WAYS: Final[Mapping[str, Way]] = {
    "`uv tool install .`": Way(("uv",), ("uv", "tool", "install", "."), "{home}/bin/lmtb", 8),
    "`pipx install .`": Way(("pipx",), ("pipx", "install", "."), "{home}/bin/lmtb"),
    "`pip install .`": Way((), ("sh", "-c", _PIP), "{home}/venv/bin/lmtb"),
    "`scripts/start`, with uv": Way(("uv",), ("scripts/venv",), "{clone}/.venv/bin/lmtb", 20),
    "`scripts/start`": Way((), ("scripts/venv",), "{clone}/.venv/bin/lmtb", 20),
}


def run(plan: Plan) -> Section:
    """Measure each way to install, first with empty caches."""
    rows: list[tuple[str, ...]] = []
    data: dict[str, object] = {}
    for number, (name, way) in enumerate(WAYS.items()):
        for caches in ("empty", "full"):
            plan.say(f"install: {name}, {caches} caches")
            try:
                times = one_way(way, plan.folder / f"{number}-{caches}", plan.folder / f"{number}-caches")
            except NotInstallable as why:
                rows.append((name, caches, *"-----", str(why), ""))
                break
            data[f"{name}, {caches}"] = times._asdict()
            rows.append(row(name, caches, way, times))
    return Section("install", table(_HEADS, rows), data, is_single=True)


def row(name: str, caches: str, way: Way, times: Times) -> tuple[str, ...]:
    """The row of one measurement."""
    goals = [(way.goal_s, times.together, "together")] if caches == "empty" and way.goal_s else []
    goals.append((SILENCE_GOAL_S, times.silence, "silence"))
    missed = [f"{word} {goal:g} s: missed" for goal, value, word in goals if value > goal]
    met = ", ".join(f"{word} {goal:g} s" for goal, _, word in goals)
    steps = (times.clone, times.install, times.up, times.call, times.together, times.silence)
    return (name, caches, *(f"{one:.1f} s" for one in steps), ", ".join(missed) or f"{met}: met")


def one_way(way: Way, folder: Path, caches: Path) -> Times:
    """Measure one way to install, and stop the manager that it started.

    Raises:
        NotInstallable: a step failed.
    """
    home, clone = folder / "home", folder / "clone"
    home.mkdir(parents=True)
    environ = environment(home, caches, [installer(name) for name in way.installers])
    cloned = run_step(["git", "clone", str(ROOT), str(clone)], folder, environ)
    installed = run_step([word.format(home=home) for word in way.command], clone, environ)
    lmtb = way.lmtb.format(home=home, clone=clone)
    with stopped_at_the_end(lmtb, folder, environ):
        started = run_step([lmtb, "up"], folder, environ)
        called = first_call(lmtb, folder, environ)
    silence = max(one.silence for one in (cloned, installed, started, called))
    return Times(cloned.seconds, installed.seconds, started.seconds, called.seconds, silence)


def installer(name: str) -> Path:
    """The folder of an installer's program: that of the PATH, else one that it is installed into.

    Raises:
        NotInstallable: it cannot be installed.
    """
    if found := shutil.which(name):
        return Path(found).parent
    folder = RESULTS / "installers" / name
    if not (folder / "bin" / name).exists():
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", name]
        for command in ([sys.executable, "-I", "-m", "venv", "--clear", str(folder)], pip):
            done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_S, check=False)
            if done.returncode:
                raise NotInstallable(f"{name} is not on the PATH, and pip does not install it")
    return folder / "bin"


def environment(home: Path, caches: Path, installers: list[Path]) -> dict[str, str]:
    """The environment of a new user, with the package indexes of this user, and these installers."""
    known = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PREFIXES)
    }
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    others = [one for one in os.environ["PATH"].split(":") if not (Path(one) / "uv").exists()]
    return {
        **known,
        "PATH": ":".join([*map(str, installers), *others]),
        "TERM": "xterm-256color",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(caches),
        "UV_CACHE_DIR": str(caches / "uv"),
        "PIP_CACHE_DIR": str(caches / "pip"),
        "PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE") or str(config / "pip" / "pip.conf"),
        "UV_TOOL_BIN_DIR": str(home / "bin"),
        "UV_TOOL_DIR": str(home / "tools"),
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        **{f"LMTB_{one}_DIR": str(home / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")},
        "LMTB_HTTP_PORT": "0",
    }


def run_step(command: list[str], folder: Path, environ: Mapping[str, str]) -> at_terminal.Ran:
    """Run a command at a terminal.

    Raises:
        NotInstallable: it failed or took too long.
    """
    try:
        done = at_terminal.run(command, folder, environ, STEP_S)
    except OSError as fault:
        raise NotInstallable(f"{command[0]}: {fault}") from fault
    if done.code:
        lines = _ESCAPES.sub("", done.output).strip().splitlines() or ["no reason given"]
        raise NotInstallable(f"{' '.join(command[:3])}: {lines[-1].strip()[:200]}")
    if done.code is None:
        raise NotInstallable(f"{command[0]} took longer than {STEP_S} s")
    return done


def first_call(lmtb: str, folder: Path, environ: Mapping[str, str]) -> at_terminal.Ran:
    """Call a tool in a new project.

    Raises:
        NotInstallable: it was not answered.
    """
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    done = run_step([lmtb, "call", "calculator", '{"expression": "6 * 7"}'], project, environ)
    if _ESCAPES.sub("", done.output).split()[-1:] != ["42"]:
        raise NotInstallable("the first call was not answered")
    return done


@contextmanager
def stopped_at_the_end(lmtb: str, folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Stop the manager at the end of the block."""
    try:
        yield
    finally:
        run_step([lmtb, "stop"], folder, environ)
