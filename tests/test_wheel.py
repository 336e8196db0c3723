"""Tests of the wheel: what is in it, what it says of itself, and that it runs where it is installed."""

from __future__ import annotations

import email.parser
import fcntl
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

import manager
from manager.client import Control
from manager.configuration.paths import Paths
from support.processes.installations.wheel import ROOT, build_wheel, pip
from support.processes.managers.manager_process import environment, left_behind

PACKAGES = ("lm_tools_bridge", "manager", "workspace_server")
pytestmark = [pytest.mark.timeout(180), pytest.mark.walkthroughs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of pytest share, so that the wheel is built once; held while it is filled."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fill(shared)
    return shared


def fill(folder: Path) -> None:
    """Build the wheel without a network; install it beside the packages of this environment."""
    if (folder / "done").exists():
        return
    wheel = build_wheel(folder)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(venv)], check=True)
    pip("--python", str(venv / "bin" / "python"), "install", "--no-deps", "--no-index", str(wheel))
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "done").touch()


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """The wheel of these sources."""
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(folder: Path) -> Path:
    """The folder of programs of a new environment with the wheel."""
    return folder / "venv" / "bin"


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def run(programs: Path, tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(programs / command[0]), *command[1:]], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_wheel_has_every_file_of_its_packages(names: set[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert files
    assert files - names == set()


def test_wheel_has_nothing_of_the_checkout_but_its_packages(names: set[str]) -> None:
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert not [name for name in names if name.endswith((".pyc", ".log"))]


def test_wheel_has_units_pages_and_type_marks(names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    units = "manager/cli/service/units/lm-tools-bridge"
    assert {f"{units}.service", f"{units}.socket"} <= names
    pages = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    assert {f"manager/{page.as_posix()}" for page in pages} <= names


def test_metadata_is_complete(metadata: Message) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Name"] == "lm-tools-bridge"
    assert metadata["Version"] == manager.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    classifiers = metadata.get_all("Classifier") or []
    for wanted in ("Operating System :: POSIX :: Linux", "Topic :: Software Development", "Typing :: Typed"):
        assert wanted in classifiers
    required = [one for one in metadata.get_all("Requires-Dist") or [] if "extra ==" not in one]
    assert len(required) == len(declared["dependencies"])


def test_long_description_has_no_relative_links(metadata: Message) -> None:
    text = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert isinstance(text, str)
    assert text.startswith("# LM Tools Bridge")
    assert re.findall(r"\]\((?!https?://)", text) == []


def test_installed_program_says_its_version_and_state(programs: Path, tmp_path: Path) -> None:
    for name in ("lmtb", "lm-tools-bridge"):
        assert run(programs, tmp_path, name, "--version").stdout == f"lm-tools-bridge {manager.__version__}\n"
    done = run(programs, tmp_path, "lmtb", "status")
    assert (done.returncode, done.stderr) == (
        5,
        "no manager is running\nNext step: start it with: lmtb up\n",
    )


def test_installed_program_finds_its_own_files(programs: Path, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; import manager, manager.documentation as d, manager.cli.service.service_manager as f;"
        "print(manager.__file__); print(d.page('clients/other.md')); print(len(f.shipped_units()));"
        "assert Path(d.page('clients/other.md')).is_file()"
    )
    done = run(programs, tmp_path, "python", "-I", "-c", code)
    where, page, units = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    for found in (where, page):
        assert Path(found).is_relative_to(programs.parent)
    assert units == "2"


@pytest.fixture
def serving(programs: Path, tmp_path: Path) -> Iterator[Control]:
    """The control socket of the installed manager, which is stopped in order."""
    environ = environment(tmp_path)
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(programs / "lmtb"), "serve", "--http-port", "0", "--banner"],
            cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        control = Control(Paths.of_user(environ).control_socket)
        deadline = time.monotonic() + 30
        while "is ready at" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield control
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert not left_behind(environ)
    finally:
        process.kill()
        process.wait()


def test_installed_program_serves_and_calls_a_tool(serving: Control, programs: Path, tmp_path: Path) -> None:
    assert serving.get("/status")["version"] == manager.__version__
    (tmp_path / "project" / ".lm-tools-bridge").mkdir(parents=True)
    done = run(
        programs,
        tmp_path,
        "lmtb",
        "call",
        "calculator",
        '{"expression": "6*7"}',
        "--cwd",
        str(tmp_path / "project"),
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert str(programs.parent) in (tmp_path / "log").read_text()
