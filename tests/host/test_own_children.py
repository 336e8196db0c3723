"""Programs that a workspace server started are recognised by a mark, also through their descendants."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from host.own_children import is_own_child
from protocol import names

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


def test_a_grandchild_that_cleared_its_environment_is_known_by_its_ancestor() -> None:
    with started(STARTS, **{names.CHILD_VARIABLE: "i.x"}) as child:
        assert child.stdout is not None
        assert is_own_child(int(child.stdout.readline()))
        child.communicate("")


def test_a_process_that_is_gone_counts_as_a_child() -> None:
    with started("") as child:
        child.communicate("")
    assert is_own_child(child.pid)
