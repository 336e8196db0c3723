"""The PATH is read from the user's login shell, whatever the shell does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from support.processes.child_processes import ENV
from support.processes.timeouts import within
from workspace_server.processes.login_shell import login_path


def _shell(folder: Path, script: str) -> str:
    path = folder / "shell"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o700)
    return str(path)


def test_the_users_profile_is_used_and_its_output_ignored(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text(
        'echo "welcome PATH=/junk"; PATH="/from/profile:$PATH:relative:"; export PATH; echo noise >&2'
    )
    environ = {"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin:/only/ours"}
    found = run(login_path(environ)).split(":")
    assert found[0] == "/from/profile"
    assert found[-1] == "/only/ours" or "/only/ours" in found
    assert not {"/junk", "relative", ""} & set(found)
    assert len(found) == len(set(found))


def test_shell_starts_in_the_home_folder_without_our_secrets(run: Any, tmp_path: Path) -> None:
    script = (
        'PATH="$(pwd)/here${SECRET:+/leaked}:$PATH"; export PATH; [ "$1" = -l ] && shift; shift; eval "$1"'
    )
    environ = {**ENV, "HOME": str(tmp_path), "SHELL": _shell(tmp_path, script), "SECRET": "x"}
    assert run(login_path(environ)).startswith(f"{tmp_path}/here:")


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "exec sleep 60",
        "sleep 60 & exit 0",
        "while :; do echo flood; done",
        "trap '' TERM; sleep 60",
    ],
    ids=["fails", "hangs", "leaves", "floods", "deaf"],
)
def test_our_path_is_used_if_the_shell_fails(run: Any, tmp_path: Path, script: str) -> None:
    environ = {"HOME": str(tmp_path), "SHELL": _shell(tmp_path, script), "PATH": "/a:rel:/b:/a"}
    begun = time.monotonic()
    assert run(login_path(environ, deadline_s=0.2)) == "/a:/b"
    assert time.monotonic() - begun < within(1)


@pytest.mark.parametrize("shell", ["/no/shell", "relative/sh"])
def test_our_path_is_used_without_a_shell(run: Any, tmp_path: Path, shell: str) -> None:
    environ = {"HOME": str(tmp_path), "SHELL": shell, "PATH": "/a:/b"}
    assert run(login_path(environ)) == "/a:/b"
