"""Programs that a workspace server started are recognised by a mark, also through their descendants."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lm_tools_bridge.machine.own_children import are_we_own_child, is_own_child
from lm_tools_bridge.protocol import names

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

STAYS = "import sys; print('up', flush=True); sys.stdin.read()"
STARTS = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STAYS!r}], env={{}}, stdin=0, stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print(child.pid, flush=True); child.wait()\n"
)


def started(code: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["linux", "darwin"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The system that we take this one for: elsewhere psutil tells what /proc tells here."""
    monkeypatch.setattr(sys, "platform", request.param)
    return str(request.param)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({names.CHILD_VARIABLE: "i.x"}, True),
        ({names.INSTANCE_VARIABLE: "i"}, True),
        ({"X": f"{names.CHILD_VARIABLE}=1"}, False),
    ],
)
def test_a_child_is_known_by_its_mark(environ: dict[str, str], expected: bool) -> None:
    with started(STAYS, **environ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert is_own_child(child.pid) is expected
        child.communicate("")


@pytest.mark.usefixtures("system")
def test_a_grandchild_that_cleared_its_environment_is_known_by_its_ancestor() -> None:
    with started(STARTS, **{names.CHILD_VARIABLE: "i.x"}) as child:
        assert child.stdout is not None
        assert is_own_child(int(child.stdout.readline()))
        child.communicate("")


@pytest.mark.usefixtures("system")
def test_a_process_that_is_gone_counts_as_a_child() -> None:
    with started("") as child:
        child.communicate("")
    assert is_own_child(child.pid)


def test_a_process_that_hides_its_environment_counts_as_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def hidden(path: Path) -> bytes:
        if path.name == "environ" and str(os.getpid()) in path.parts:
            raise PermissionError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", hidden)
    assert is_own_child(os.getpid())
    assert not is_own_child(os.getppid()), "its parent shows that it is none"


def test_an_ancestor_of_another_user_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def hidden(path: Path) -> bytes:
        if path.name == "environ" and str(os.getppid()) in path.parts:
            raise PermissionError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", hidden)
    assert not is_own_child(os.getpid())


@pytest.mark.parametrize(("hiding", "expected"), [(os.getpid, True), (os.getppid, False)])
def test_elsewhere_only_the_process_itself_counts_as_a_child_for_hiding(
    hiding: Callable[[], int], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = psutil.Process.environ

    def hidden(process: psutil.Process) -> dict[str, str]:
        if process.pid == hiding():
            raise psutil.AccessDenied(process.pid)
        return read(process)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(psutil.Process, "environ", hidden)
    assert is_own_child(os.getpid()) is expected


def test_elsewhere_a_program_that_cleared_its_environment_still_finds_that_it_is_a_child() -> None:
    """Else its verbs that decide for the user would run."""
    asks = (
        "import psutil, sys; sys.platform = 'darwin'\n"
        "from lm_tools_bridge.machine.own_children import are_we_own_child\n"
        "print(are_we_own_child())"
    )
    starts = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {asks!r}], env={{'PYTHONPATH': {os.getcwd()!r}}}, check=True)"
    )
    with started(starts, **{names.CHILD_VARIABLE: "i.x"}) as child:
        assert child.communicate()[0] == "True\n"
    assert not are_we_own_child()
