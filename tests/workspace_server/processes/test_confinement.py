"""Confinement is tested from inside a confined child."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from support.processes.child_processes import ENV, everything, output, python, sh
from workspace_server.processes.child_process import ChildProcess, ChildStartError, Command
from workspace_server.processes.confinement import Confinement, available_layers

_LANDLOCK = next((int(layer[13:]) for layer in available_layers() if layer.startswith("landlock-abi-")), 0)


def landlock(version: int) -> pytest.MarkDecorator:
    """Skips where the kernel's Landlock is older."""
    return pytest.mark.skipif(
        version > _LANDLOCK, reason=f"needs Landlock {version}, there is {_LANDLOCK or 'none'}"
    )


_TRY = """
import json, os, sys
def attempt(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0
inside, outside = sys.argv[1:]
print(json.dumps({
    "write inside": attempt(lambda: open(inside + "/new", "w").write("x")),
    "rename inside": attempt(lambda: os.rename(inside + "/new", inside + "/newer")),
    "remove inside": attempt(lambda: os.unlink(inside + "/newer")),
    "read outside": attempt(lambda: open(outside + "/file").read()),
    "write outside": attempt(lambda: open(outside + "/new", "w")),
    "truncate outside": attempt(lambda: os.truncate(outside + "/file", 0)),
    "remove outside": attempt(lambda: os.unlink(outside + "/file")),
    "link outside": attempt(lambda: os.symlink("/", outside + "/link")),
    "null": attempt(lambda: open("/dev/null", "w").write("x")),
    "stderr": attempt(lambda: open("/dev/stderr", "w").write("x")),
}))
"""


def _folders(base: Path) -> tuple[Path, Path]:
    inside, outside = base / "inside", base / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("content")
    return inside, outside


@landlock(3)
def test_only_allowed_folders_can_be_written(run: Any, tmp_path: Path) -> None:
    inside, outside = _folders(tmp_path)
    fence = Confinement(read_write=(inside, tmp_path / "missing"))
    found = json.loads(run(output(python(_TRY, str(inside), str(outside), confinement=fence))))
    refused = {name for name, number in found.items() if number}
    assert refused == {"write outside", "truncate outside", "remove outside", "link outside"}
    assert (outside / "file").read_text() == "content"


@landlock(3)
def test_readable_folders_can_be_restricted(run: Any, tmp_path: Path) -> None:
    inside, outside = _folders(tmp_path)
    readable = tuple(Path(name) for name in ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix, sys.prefix))
    fence = Confinement(read_write=(inside,), read_only=readable)
    found = json.loads(run(output(python(_TRY, str(inside), str(outside), confinement=fence))))
    assert {name for name, number in found.items() if not number and "outside" in name} == set()


@landlock(3)
def test_a_program_that_cannot_be_read_does_not_start(run: Any) -> None:
    with pytest.raises(ChildStartError, match='sh": Permission denied'):
        run(ChildProcess.start(Command(("/bin/sh",), ENV, "/", Confinement(read_only=()))))


@landlock(4)
@pytest.mark.parametrize(("network", "expected"), [(True, b"0 0\n"), (False, b"13 13\n")])
def test_the_network_can_be_blocked(run: Any, network: bool, expected: bytes) -> None:
    script = (
        "import socket, sys\n"
        "print(socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1]))), end=' ')\n"
        "try: socket.socket().bind(('127.0.0.1', 0)); print(0)\n"
        "except OSError as error: print(error.errno)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = python(script, str(server.getsockname()[1]), confinement=Confinement(network=network))
        assert run(output(command)) == expected


@landlock(6)
def test_outside_processes_cannot_be_signalled(run: Any) -> None:
    script = (
        "import os\ntry: os.kill(os.getppid(), 0); print('reached')\nexcept PermissionError: print('refused')"
    )
    assert run(output(python(script, confinement=Confinement()))) == b"refused\n"
    assert run(output(python(script))) == b"reached\n"


@landlock(6)
def test_abstract_sockets_of_others_cannot_be_reached(run: Any) -> None:
    script = (
        "import socket, sys\n"
        "print(socket.socket(socket.AF_UNIX).connect_ex('\\0' + sys.argv[1]), end=' ')\n"
        "own = socket.socket(socket.AF_UNIX); own.bind('\\0' + sys.argv[1] + 'own'); own.listen()\n"
        "print(socket.socket(socket.AF_UNIX).connect_ex('\\0' + sys.argv[1] + 'own'))\n"
    )
    name = f"lmtb-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        assert run(output(python(script, name, confinement=Confinement()))) == b"1 0\n"
        assert run(output(python(script, name))) == b"0 0\n"


@landlock(1)
def test_descendants_have_the_same_restrictions(run: Any, tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo x > {tmp_path}/new'; ls {tmp_path}"
    assert run(output(sh(script, confinement=Confinement()))) == b""


def test_resource_limits_are_set(run: Any) -> None:
    fence = Confinement(max_file_bytes=4096, max_memory_bytes=1 << 30, cpu_s=7, max_open_files=33)
    script = (
        "import resource as r\n"
        "print([r.getrlimit(x) for x in (r.RLIMIT_FSIZE, r.RLIMIT_AS, r.RLIMIT_NOFILE, r.RLIMIT_CORE)])\n"
        "print(r.getrlimit(r.RLIMIT_CPU))\n"
    )
    g = 1 << 30
    expected = f"[(4096, 4096), ({g}, {g}), (33, 33), (0, 0)]\n(7, 8)\n"
    assert run(output(python(script, confinement=fence))) == expected.encode()


def test_exceeding_a_resource_limit_ends_the_process(run: Any, tmp_path: Path) -> None:
    async def code(script: str, fence: Confinement) -> int:
        child = await ChildProcess.start(sh(script, confinement=fence), stdin=False)
        await everything(child)
        found = await child.wait()
        await child.stop()
        return found

    inside = (tmp_path,)
    flood = f"exec head -c 1000000 /dev/zero > {tmp_path}/file"
    assert run(code(flood, Confinement(read_write=inside, max_file_bytes=4096))) == -signal.SIGXFSZ
    assert os.path.getsize(tmp_path / "file") == 4096


def test_privileges_cannot_be_gained(run: Any) -> None:
    read = Command(("/bin/grep", "NoNewPrivs", "/proc/self/status"), ENV, "/", Confinement())
    assert run(output(read)) == b"NoNewPrivs:\t1\n"


def test_confined_child_has_no_other_environment_and_descriptors(run: Any) -> None:
    script = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))), sorted(os.environb))"
    command = Command(
        (sys.executable, "-I", "-S", "-c", script), {"LC_ALL": "C.UTF-8"}, "/", Confinement(network=False)
    )
    assert run(output(command)) == b"[0, 1, 2, 3] [b'LC_ALL', b'LMTB_CHILD']\n"


def test_available_layers_are_reported() -> None:
    layers = available_layers()
    assert {"rlimits", "no-new-privs", "pdeathsig"} <= set(layers)
    assert len(layers) == 3 + bool(_LANDLOCK) + ("fixed-files" in layers)
