"""Tests of the shell scripts, as far as they need no network and no second installation."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

import manager

ROOT = Path(manager.__file__).parents[1]
SH = shutil.which("sh")
pytestmark = pytest.mark.skipif(sys.platform == "win32" or not SH, reason="the scripts are for POSIX shells")


@pytest.mark.parametrize(
    "script",
    [
        "scripts/venv",
        "scripts/bench",
        "scripts/faults",
        "scripts/attacks",
        "scripts/soak",
        "scripts/trace-call",
        "scripts/demo-remote",
        "scripts/start",
        "scripts/test",
        "scripts/repeat-tests",
        "scripts/real-servers",
        "scripts/clients",
        "scripts/agents",
        "scripts/language-servers",
        "scripts/public-repositories",
        "scripts/nats-servers",
        "scripts/editor-extension",
        "scripts/conformance",
        "scripts/pictures",
        "scripts/release",
        "scripts/ways-of-starting",
        ".ci/run",
    ],
)
def test_script_is_executable_and_parses(script: str) -> None:
    path = ROOT / script
    shell = shutil.which(path.read_text().splitlines()[0].split("/")[-1].split()[-1])
    assert os.access(path, os.X_OK)
    if shell:  # bash, for continuous integration only
        subprocess.run([shell, "-n", str(path)], check=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the scripts with its own `PATH` and a .venv whose programs say what they are asked."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "path").mkdir()
    for program in ("sh", "dirname", "cksum", "cat", "sleep"):
        (tmp_path / "path" / program).symlink_to(shutil.which(program) or program)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for program in ("python", "lmtb"):
        fake = tmp_path / ".venv" / "bin" / program
        fake.write_text(f'#!{SH}\ncase "$*" in -I*) ;; *) echo {program} "$@" ;; esac\n')
        fake.chmod(0o755)
    return tmp_path


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / command[0]), *command[1:]], cwd="/", env={"PATH": str(checkout / "path")},
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


def test_start_installs_once_and_passes_its_options_on(checkout: Path) -> None:
    first = run(checkout, "scripts/start", "--port", "0", "a b")
    install, serve = first.stdout.splitlines()
    assert install == f"python -m pip install -q --disable-pip-version-check -e {checkout}"
    assert serve == "lmtb serve --port 0 a b"
    assert run(checkout, "scripts/start").stdout == "lmtb serve\n"
    (checkout / "pyproject.toml").write_text("[project]\n# changed\n")
    assert "pip install" in run(checkout, "scripts/start").stdout


def test_development_installation_serves_for_start_as_well(checkout: Path) -> None:
    assert f"-e {checkout}[dev]" in run(checkout, "scripts/venv", "dev").stdout
    assert run(checkout, "scripts/start").stdout == "lmtb serve\n"
    assert run(checkout, "scripts/venv", "dev").stdout == ""


def test_many_installations_at_once_all_end(checkout: Path) -> None:
    """The dots of none go on: its output would stay open."""
    with ThreadPoolExecutor(16) as threads:
        ended = list(threads.map(lambda number: run(checkout, "scripts/venv", f"extra{number}"), range(48)))
    assert [one.returncode for one in ended] == [0] * 48


UV = """#!{sh}
echo uv "$@"
case "$1" in
venv) for last in "$@"; do :; done; mkdir -p "$last/bin"; cp {programs}/* "$last/bin" ;;
esac
"""


@pytest.fixture
def uv(checkout: Path) -> Path:
    """A uv on the PATH that makes environments of the fake programs."""
    programs = checkout / "programs"
    shutil.copytree(checkout / ".venv" / "bin", programs)
    shutil.rmtree(checkout / ".venv")
    for name in ("mkdir", "cp"):
        (checkout / "path" / name).symlink_to(shutil.which(name) or name)
    fake = checkout / "path" / "uv"
    fake.write_text(UV.format(sh=SH, programs=programs))
    fake.chmod(0o755)
    return fake


def test_uv_makes_the_environment_where_it_is_installed(checkout: Path, uv: Path) -> None:
    venv = checkout / ".venv"
    assert run(checkout, "scripts/start").stdout.splitlines() == [
        f"uv venv -q --clear --seed --python >=3.11 {venv}",
        f"uv pip install -q --python {venv}/bin/python -e {checkout}",
        "lmtb serve",
    ]
    assert run(checkout, "scripts/start").stdout == "lmtb serve\n"
    assert run(checkout, "scripts/venv", "dev").stdout.endswith(f"-e {checkout}[dev]\n")


def test_python_makes_the_environment_where_uv_fails(checkout: Path, uv: Path) -> None:
    uv.write_text(f'#!{SH}\n[ "$1" != venv ]\n')
    done = run(checkout, "scripts/start")
    assert "No Python 3.11 or newer found on PATH. Next step:" in done.stderr


def test_long_installation_is_never_silent_for_two_seconds(checkout: Path) -> None:
    """Ends when it ends: no process of the script goes on."""
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(f'#!{SH}\ncase "$*" in -I*) ;; *) sleep 3.5 ;; esac\n')
    with subprocess.Popen(
        [str(checkout / "scripts/start")], cwd="/", env={"PATH": str(checkout / "path")}, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as started:  # fmt: skip
        assert started.stderr is not None
        times = [time.monotonic()]
        while os.read(started.stderr.fileno(), 1000):
            times.append(time.monotonic())
        assert started.wait(10) == 0
    assert max(later - sooner for sooner, later in pairwise(times)) < 2
    assert len(times) >= 4


def test_interrupted_installation_ends_its_progress(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(f'#!{SH}\ncase "$*" in -I*) ;; *) exec sleep 30 ;; esac\n')
    with subprocess.Popen(
        [str(checkout / "scripts/venv")], cwd="/", env={"PATH": str(checkout / "path")}, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as started:  # fmt: skip
        assert started.stderr is not None
        said = b""
        while b"." not in said.partition(b"dependencies")[2]:
            said += os.read(started.stderr.fileno(), 1000)
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(10) == 130
        while os.read(started.stderr.fileno(), 1000):  # ends only when nobody can write any more
            pass


def test_failed_installation_is_tried_again(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    works = python.read_text()
    python.write_text(f'#!{SH}\ncase "$*" in -I*) ;; *) exit 7 ;; esac\n')
    assert run(checkout, "scripts/start").returncode == 7
    python.write_text(works)
    assert "pip install" in run(checkout, "scripts/start").stdout


def test_missing_python_is_said_with_the_next_step(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    done = run(checkout, "scripts/start")
    assert done.returncode != 0
    assert "No Python 3.11 or newer found on PATH. Next step:" in done.stderr


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["scripts/real-servers"], "Node 18 or newer is not on the PATH"),
        (["scripts/clients"], "Node is not on the PATH"),
        (["scripts/agents"], "Node is not on the PATH"),
        (["scripts/language-servers"], "Node 20 or newer is not on the PATH"),
        (["scripts/editor-extension"], "Node 20 or newer is not on the PATH"),
        (["scripts/conformance", "--install"], "npm is not on the PATH"),
    ],
)
def test_what_others_wrote_is_not_installed_without_node(
    checkout: Path, command: list[str], reason: str
) -> None:
    """75: no fault, so that their tests are skipped."""
    done = run(checkout, *command)
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == f"{reason}\n"


# makes environments whose Python does nothing
FAKE_PYTHON = """case "$*" in
*sys.version*) exec "{real}" "$@" ;;
"-I -m venv"*) mkdir -p venv/bin && ln -s "$0" venv/bin/python ;;
esac
"""


@pytest.mark.parametrize("script", ["real-servers", "clients", "language-servers", "nats-servers"])
def test_what_others_wrote_is_installed_once_for_all_checkouts(tmp_path: Path, script: str) -> None:
    """The folder is the user's; what is in it needs the Python below a checkout's environment, not that environment."""
    first, second = (checkout_with_environment(tmp_path / name) for name in ("first", "second"))
    assert "installing" in install_of_others(first, script).stderr
    again = install_of_others(second, script)
    assert (again.returncode, again.stderr) == (0, "")


def checkout_with_environment(folder: Path) -> Path:
    """Scripts with an environment whose Python only says what it is; pip, npm and Node do nothing."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    environment = folder / ".venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "real").symlink_to(Path(sys.executable).resolve())
    (environment.parent / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    for program, text in {
        environment / "python": FAKE_PYTHON.format(real=environment / "real"),
        environment / "node": "echo v22.0.0\n",
        **{environment / name: "" for name in ("npm", "gopls", "rust-analyzer")},
    }.items():
        program.write_text(f"#!{SH}\n{text}")
        program.chmod(0o755)
    return folder


def install_of_others(checkout: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "scripts" / script)],
        env={"PATH": f"{checkout}/.venv/bin:/usr/bin:/bin", "HOME": str(checkout.parent / "home")},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_source_trees_of_others_are_not_fetched_without_apt(checkout: Path) -> None:
    """75, as above."""
    done = run(checkout, "scripts/public-repositories")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == "apt-get and Debian's keys are needed to get Debian's sources\n"
