"""Tests of the limit of open files."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.machine import own_process
from lm_tools_bridge.machine.own_process import connections_within, session_folder, with_session_folder


@pytest.mark.parametrize(
    ("limit", "connections", "expected"),
    [(None, 2048, 2048), (1_048_576, 2048, 2048), (1024, 2048, 298), (64, 2048, 10), (10, 2048, 8)],
)
def test_connections_leave_room_for_other_files(limit: int | None, connections: int, expected: int) -> None:
    assert connections_within(limit, connections) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_the_limit_is_raised_and_children_get_the_former_one() -> None:
    program = (
        "import resource, subprocess, sys\nfrom lm_tools_bridge.machine.own_process import raise_limit, restore_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 100))\nassert raise_limit() == 100\n"
        "with subprocess.Popen(['sleep', '60']) as child:\n"
        "    restore_limit(child.pid)\n"
        "    print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.prlimit(child.pid, resource.RLIMIT_NOFILE))\n"
        "    child.kill()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert child.stdout.strip() == "(100, 100) (64, 100)"


PROGRAM = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from lm_tools_bridge.machine.own_process import erase_values
erase_values(lambda name: name.startswith("LMTB_SECRET_"))
shown = open("/proc/self/environ", "rb").read()
print(b"hunter2" in shown, b"OTHER=stays" in shown, b"LMTB_SECRET_EMPTY=" in shown)
print(os.environ["LMTB_SECRET_A"], os.environ["LMTB_SECRET_B"], os.environ["OTHER"])
child = [sys.executable, "-c", "import os; print(os.environ['LMTB_SECRET_B'])"]
for environment in (dict(os.environ), None):
    print(subprocess.run(child, env=environment, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
def test_values_are_erased_where_other_programs_could_read_them_and_kept_for_us() -> None:
    variables = {
        "LMTB_SECRET_A": "hunter2",
        "OTHER": "stays",
        "LMTB_SECRET_EMPTY": "",
        "LMTB_SECRET_B": "x=hunter2",
    }
    command = [sys.executable, "-I", "-c", PROGRAM, str(Path(__file__).parents[3])]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "False",
        "True",
        "True",
        "hunter2",
        "x=hunter2",
        "stays",
        *["x=hunter2"] * 2,
    ]


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd makes these folders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own_folder = tmp_path / str(os.geteuid())
    own_folder.mkdir()
    return own_folder


@pytest.mark.parametrize("has_home", [True, False])
def test_the_users_own_home_leads_to_the_folder(folder: Path, has_home: bool) -> None:
    environ = {"HOME": pwd.getpwuid(os.geteuid()).pw_dir} if has_home else {}
    assert session_folder(environ, folder.parent) == folder
    assert session_folder(environ, folder.parent / "none") is None


def test_with_another_home_nothing_of_the_users_sessions_is_found(folder: Path) -> None:
    assert session_folder({"HOME": "/another"}, folder.parent) is None


def test_programs_get_the_variable_only_where_it_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "session_folder", lambda environ: folder)
    assert with_session_folder({"A": "1"}) == {"A": "1", "XDG_RUNTIME_DIR": str(folder)}
    assert with_session_folder({"XDG_RUNTIME_DIR": "/mine"}) == {"XDG_RUNTIME_DIR": "/mine"}
    monkeypatch.setattr(own_process, "session_folder", lambda environ: None)
    assert with_session_folder({"A": "1"}) == {"A": "1"}
