"""Tests that the manager's secrets and files are closed to other programs of the user, as far as that is possible."""

from __future__ import annotations

import json
import stat
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from support.processes.managers.manager_in_process import make_project
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.servers.mcp_sources.stdio_servers import program

SECRET = "hunter2-of-nobody"


def shows(pid: int) -> bool:
    with suppress(OSError):
        return SECRET in Path(f"/proc/{pid}/environ").read_text(errors="replace")
    return False


def tree(manager: ManagerProcess) -> list[int]:
    return [
        manager.process.pid,
        *(one.pid for one in psutil.Process(manager.process.pid).children(recursive=True)),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
@pytest.mark.parametrize("forks", ["true", "false"])
def test_no_environment_shows_a_secret_but_that_of_the_server_which_is_given_it(
    tmp_path: Path, forks: str
) -> None:
    env = {"LMTB_SECRET_A": SECRET, "LMTB_FORK_SERVERS": forks}
    project = make_project(tmp_path / "proj")
    config = tmp_path / "config"
    config.mkdir()
    tells = program('serve(lambda m: answer(m["id"], text(f"{os.getpid()} {os.environ[\'GIVEN\']}")))')
    (config / "workspace.toml").write_text(
        f'[[mcp.stdio_servers]]\nnamespace = "s"\ncommand = {json.dumps(tells)}\n'
        'env = { GIVEN = "${LMTB_SECRET_A}" }\n'
    )
    with running_manager(tmp_path, env=env) as manager:
        done = manager.lmtb("call", "s__echo", "--cwd", str(project))
        assert done.returncode == 0, done.stderr
        pid, secret = done.stdout.split()
        assert secret == SECRET
        processes = tree(manager)
        assert len(processes) > 2
        assert [process for process in processes if shows(process)] == [int(pid)]


def test_modes_of_our_files_are_private_again_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running_manager(tmp_path):
        pass
    files = [one for one in state.rglob("*") if one.is_file()]
    for one in (state, *files):
        one.chmod(0o777)
    with running_manager(tmp_path) as manager:
        modes = {stat.S_IMODE(one.stat().st_mode) & 0o077 for one in (state, *files) if one.exists()}
        assert modes == {0}
        assert "files.made_private" in manager.log.read_text()
