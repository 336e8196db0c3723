"""`lmtb remote`: what it tells the manager and ssh, and what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.machine.private_files import make_private
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.cli import installing, serving
from lm_tools_bridge.remote_hosts.cli.hosts import TerminalHost
from lm_tools_bridge.remote_hosts.known_hosts import login_socket
from manager.configuration.paths import Paths

FORGET = ("POST /lines", {"forget": True})


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what an `ssh` of the test was called with."""
    called = tmp_path / "called"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\necho "$@" >>{called}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return called


def logged_in(paths: Paths, host: Host) -> Path:
    login = login_socket(paths.runtime_dir, host)
    make_private(login.parent)
    login.touch()
    return login


def test_another_address_of_a_name_ends_the_line_of_the_old(
    run: Any, control: Any, paths: Paths, ssh: Path
) -> None:
    control.say("POST /lines", {"lines": []})
    assert run("remote", "add", "build", "ssh://old/").exit_code == 0
    login = logged_in(paths, Host("ssh", "old"))
    control.asked.clear()
    result = run("remote", "add", "build", "ssh://new/")
    assert result.exit_code == 0, result.output
    assert control.asked == [FORGET]
    assert ssh.read_text() == f"-O exit -o ControlPath={login} -- old\n"


def test_a_removed_host_loses_its_line_and_its_login(run: Any, control: Any, paths: Paths, ssh: Path) -> None:
    control.say("POST /lines", {"lines": []})
    run("remote", "add", "build", "ssh://ada@build/")
    login = logged_in(paths, Host("ssh", "build", "ada"))
    control.asked.clear()
    assert run("remote", "remove", "build").exit_code == 0
    assert control.asked == [FORGET]
    assert ssh.read_text() == f"-O exit -o ControlPath={login} -l ada -- build\n"


def test_a_host_is_added_without_a_manager(run: Any, ssh: Path) -> None:
    assert run("remote", "add", "build", "ssh://build/").exit_code == 0
    assert not ssh.exists()


@pytest.mark.parametrize("command", ["", "--help", "lmtb '"])
def test_words_that_are_no_command_are_refused(run: Any, paths: Paths, command: str) -> None:
    result = run("remote", "add", "build", "ssh://build/", "--command", command)
    assert result.exit_code != 0
    assert "is no command" in result.output
    assert not (paths.config_dir / "remote.toml").exists()


def test_serving_a_line_loads_neither_the_near_end_nor_a_command_line() -> None:
    program = (
        "import sys; sys.argv[1:] = 'remote', 'serve'\n"
        "from lm_tools_bridge.remote_hosts.cli import serving; serving.serve_line = lambda: print(*sys.modules)\n"
        "import lm_tools_bridge.remote_hosts.tunnel.far_end, manager.cli; manager.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "lm_tools_bridge.remote_hosts.tunnel.far_end" in loaded
    assert not loaded & {"sqlite3", "tomlkit", "tarfile", "manager.supervision", "click"}


def test_serving_a_line_needs_no_option(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "serve_line", lambda: 7)
    assert run("remote", "serve").exit_code == 7


DIGESTS = {"sha256sum": "", "shasum": "-a 256", "openssl": "dgst -sha256 -r"}


@pytest.mark.parametrize("tool", [*DIGESTS, None])
def test_wheels_are_compared_with_what_is_there(tmp_path: Path, tool: str | None) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "mktemp", "rm", "cat", "cut", "tar"):
        (programs / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    made = {"uv": "exit 7"}
    if tool is not None:
        made[tool] = f'[ "$*" = "{DIGESTS[tool]}" ] && echo "d1  -"'
    for name, line in made.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    codes = [
        subprocess.run(
            ["sh", "-c", installing._INSTALL, "sh", digest, "own.whl"],
            input=b"\0" * 10240,
            env={"PATH": str(programs), "TMPDIR": str(tmp_path)},
            check=False,
        ).returncode
        for digest in ("d1", "d2")
    ]
    expected = [7, installing._OTHER_DIGEST] if tool else [installing._NO_DIGEST] * 2
    assert codes == expected
    assert {one.name for one in tmp_path.iterdir()} == {"bin"}


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The hosts on which verbs ran, with their words."""
    verbs: list[list[str]] = []

    def run(host: TerminalHost, words: list[str]) -> int:
        verbs.append([host.name, *words])
        return 3

    monkeypatch.setattr(TerminalHost, "run", run)
    return verbs


def test_names_that_look_like_options_are_names_on_another_host_too(run: Any, there: list[list[str]]) -> None:
    run("remote", "add", "box", "ssh://box/")
    assert run("trust", "--yes", "--json", "--", "ssh://box/srv/p", "--diff").exit_code == 3
    assert there == [["box", "trust", "--yes", "--json", "--", "/srv/p", "--diff"]]


def test_trust_on_another_host_is_revoked_there(run: Any, there: list[list[str]]) -> None:
    run("remote", "add", "box", "ssh://box/")
    run("untrust", "ssh://box/srv/p")
    run("untrust", "box:/srv/p", "--json")
    assert there == [["box", "untrust", "--", "/srv/p"], ["box", "untrust", "--json", "--", "/srv/p"]]


@pytest.mark.parametrize(("name", "word"), [("mail", "mail"), ("-x", "-- -x")])
def test_one_signs_in_on_the_host_of_a_project(run: Any, control: Any, name: str, word: str) -> None:
    control.say("POST /lines", {"ok": True, "lines": []})
    run("remote", "add", "build", "ssh://build/")
    refused = run("servers", "login", "--cwd", "build:/srv/my app", "--", name)
    assert refused.exit_code != 0
    assert f"run there: lmtb servers login --cwd '/srv/my app' {word}" in refused.stderr


def test_why_there_is_no_line_is_a_sentence_with_what_helps(run: Any, control: Any, ssh: Path) -> None:
    line = {
        "name": "build", "address": "ssh://ada@build/", "state": "failed", "latencyMs": None, "version": None,
        "machine": None, "user": None, "pid": None, "cause": "not_installed", "said": ["lmtb: not found"],
    }  # fmt: skip
    control.say("POST /lines", {"lines": [line]})
    run("remote", "add", "build", "ssh://ada@build/")
    shown = run("remote", "status", "build").stdout
    assert "lm-tools-bridge is not installed on ssh://ada@build/" in shown
    assert "run: lmtb remote install build" in shown and "not_installed" not in shown
    control.say("POST /lines", {"lines": [{**line, "cause": "no_tool"}]})
    assert (
        "the program that reaches ssh://ada@build/ is not installed"
        in run("remote", "status", "build").stdout
    )
    control.say("POST /lines", {"lines": [{**line, "cause": "of_a_newer_version"}]})
    assert "of_a_newer_version" in run("remote", "status", "build").stdout
