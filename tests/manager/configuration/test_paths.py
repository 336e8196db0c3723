"""Tests of manager.configuration.paths: where files live, and which folders are refused."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import platformdirs
import pytest

import manager
from lm_tools_bridge.machine.private_files import UnsafePathError, make_private
from manager.configuration import paths
from manager.configuration.paths import MAX_SOCKET_PATH_BYTES, Paths
from manager.startup.lock import Lock
from manager.startup.port import leave_signposts, remove_signposts

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the XDG rules are used on Linux")
as_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can make another user's folder"
)
ROOT = Path(manager.__file__).parents[1]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@linux
@pytest.mark.parametrize("xdg", [True, False], ids=["XDG set", "XDG unset"])
def test_folders_are_those_of_platformdirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: bool
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
        if xdg:
            monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = Paths.of_user()
    assert paths.config_dir == platformdirs.user_config_path("lm-tools-bridge", appauthor=False)
    assert paths.state_dir == platformdirs.user_state_path("lm-tools-bridge", appauthor=False)


@linux
def test_files_have_their_documented_names() -> None:
    paths = Paths.of_user({"HOME": "/h"})
    assert paths.config_file == Path("/h/.config/lm-tools-bridge/config.toml")
    assert paths.state_file == Path("/h/.local/state/lm-tools-bridge/state.sqlite3")
    assert paths.logs_dir == Path("/h/.local/state/lm-tools-bridge/logs")
    assert paths.runtime_dir == Path("/h/.local/state/lm-tools-bridge/run")
    assert paths.control_socket == paths.runtime_dir / "control.sock"
    assert paths.lock_file == paths.runtime_dir / "manager.lock"


@posix
def test_each_folder_can_be_overridden_alone(tmp_path: Path) -> None:
    plain = Paths.of_user({"HOME": str(tmp_path)})
    for name, field in (("CONFIG", "config_dir"), ("STATE", "state_dir"), ("RUNTIME", "runtime_dir")):
        paths = Paths.of_user({"HOME": str(tmp_path), f"LMTB_{name}_DIR": "/elsewhere"})
        assert getattr(paths, field) == Path("/elsewhere")
        others = {"config_dir", "state_dir"} - {field}
        assert all(getattr(paths, other) == getattr(plain, other) for other in others)


@posix
def test_relative_override_is_refused_with_hint() -> None:
    with pytest.raises(UnsafePathError, match="set LMTB_RUNTIME_DIR to an absolute path"):
        Paths.of_user({"HOME": "/h", "LMTB_RUNTIME_DIR": "run"})


@linux
@pytest.mark.parametrize("stripped", ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"])
def test_a_variable_that_a_client_does_not_pass_on_moves_no_socket(tmp_path: Path, stripped: str) -> None:
    environ = {"HOME": str(tmp_path)}
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        (tmp_path / name).mkdir(mode=0o700)
        environ[name] = str(tmp_path / name)
    everything, less = Paths.of_user(environ), dict(environ)
    del less[stripped]
    assert Paths.of_user(less).runtime_dir == everything.runtime_dir
    assert Paths.of_user(less).control_socket == everything.control_socket


@posix
def test_an_overridden_state_folder_has_its_own_runtime_folder() -> None:
    assert Paths.of_user({"HOME": "/h", "LMTB_STATE_DIR": "/s"}).runtime_dir == Path("/s/run")


@linux
def test_writes_that_wait_for_a_full_disk_go_to_another_one_if_there_is_one(tmp_path: Path) -> None:
    session = tmp_path / "session"
    session.mkdir(mode=0o700)
    environ = {"HOME": str(tmp_path / "home")}
    assert Paths.of_user(environ).unsaved_file.parent == Paths.of_user(environ).runtime_dir
    assert Paths.of_user(environ | {"XDG_RUNTIME_DIR": str(session)}).unsaved_file.parent.parent == session


@posix
@pytest.mark.parametrize(
    ("home", "parent"), [("/h", "/h"), ("/" + "h" * 99, "/tmp")], ids=["home is short", "home is long too"]
)
def test_long_socket_path_moves_to_a_short_folder_of_its_own(home: str, parent: str) -> None:
    def socket_for(name: str) -> Path:
        return Paths.of_user({"HOME": home, "LMTB_RUNTIME_DIR": "/" + name * 100}).control_socket

    path = socket_for("a")
    assert len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
    assert path.parent.parent == Path(parent)
    assert path == socket_for("a")
    assert path != socket_for("b")


@posix
def test_socket_path_of_exactly_the_limit_stays() -> None:
    longest = "/" + "r" * (MAX_SOCKET_PATH_BYTES - len("/" + "/control.sock"))
    assert Paths.of_user({"HOME": "/h", "LMTB_RUNTIME_DIR": longest}).control_socket.parent == Path(longest)
    longer = Paths.of_user({"HOME": "/h", "LMTB_RUNTIME_DIR": longest + "r"})
    assert longer.control_socket.parent != longer.runtime_dir


@posix
def test_private_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(old)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


@posix
@pytest.mark.parametrize("found", [0o755, 0o770, 0o2701])
def test_own_folder_open_to_others_is_closed(tmp_path: Path, found: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(found)
    make_private(folder)
    assert mode(folder) & 0o777 == 0o700


@posix
@pytest.mark.parametrize("target_exists", [True, False])
def test_planted_symbolic_link_is_refused_and_its_target_untouched(
    tmp_path: Path, target_exists: bool
) -> None:
    """Somebody else prepared the path."""
    target = tmp_path / "target"
    if target_exists:
        target.mkdir()
        target.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(UnsafePathError, match=f"remove {link}"):
        make_private(link)
    assert mode(target) == 0o755 if target_exists else not target.exists()


@posix
def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UnsafePathError, match="not a folder"):
        make_private(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


@as_root
def test_folder_of_another_user_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(0o755)
    os.chown(folder, 65534, -1)
    with pytest.raises(UnsafePathError, match=r"another user \(uid 65534\)") as refused:
        make_private(folder)
    assert refused.value.path == folder
    assert "run as its owner" in refused.value.hint
    assert mode(folder) == 0o755


def test_importing_paths_loads_no_slow_library() -> None:
    slow = "{'aiohttp', 'asyncio', 'pydantic', 'psutil', 'platformdirs', 'socket', 'hashlib', 'tempfile'}"
    code = f"import sys; import manager.configuration.paths as p; p.Paths.of_user({{'HOME': '/h'}}); print(sorted({slow} & set(sys.modules)))"
    if sys.platform != "linux":
        code = code.replace("p.Paths.of_user({'HOME': '/h'}); ", "")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("home", ["relative", "~"])
def test_a_home_that_is_not_absolute_is_refused(home: str) -> None:
    """It would be another folder for every caller."""
    with pytest.raises(UnsafePathError, match="set HOME"):
        Paths.of_user({"HOME": home})


@posix
def test_a_user_without_any_home_is_told_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    with pytest.raises(UnsafePathError, match="set HOME"):
        Paths.of_user({})


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the rules of XDG are used on Linux")
ENDED = 2**22
"""No process has this number: it is above the largest one."""
as_root_runtime_folder = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can make another user's folder"
)


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """A user whose login session has a folder; all paths are short enough for sockets."""
    with TemporaryDirectory(dir="/tmp", prefix="home-") as home:
        Path(home, "x").mkdir(mode=0o700)
        yield {"HOME": home, "XDG_RUNTIME_DIR": f"{home}/x"}


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """A manager's control socket at a path."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        yield


def former_socket(environ: dict[str, str]) -> Path:
    return Path(environ["XDG_RUNTIME_DIR"]) / "lm-tools-bridge" / "control.sock"


def test_a_manager_of_an_earlier_version_is_found_where_it_serves(environ: dict[str, str]) -> None:
    fixed = Paths.of_user(environ)
    with listening(former_socket(environ)):
        paths = Paths.of_user(environ)
        assert paths.control_socket == former_socket(environ)
        assert paths.is_former
        assert not fixed.is_former
    assert Paths.of_user(environ) == fixed  # its socket is left, but nobody answers


def test_a_manager_at_the_fixed_place_comes_before_one_of_an_earlier_version(environ: dict[str, str]) -> None:
    fixed = Paths.of_user(environ)
    with listening(former_socket(environ)), listening(fixed.control_socket):
        assert Paths.of_user(environ) == fixed


def test_with_an_own_runtime_folder_no_other_manager_is_looked_for(environ: dict[str, str]) -> None:
    with listening(former_socket(environ)):
        paths = Paths.of_user(environ | {"LMTB_RUNTIME_DIR": "/elsewhere"})
    assert paths.runtime_dir == Path("/elsewhere")
    assert paths.former_dirs == ()


def test_with_an_own_state_folder_the_users_usual_manager_is_not_met(environ: dict[str, str]) -> None:
    with listening(Paths.of_user(environ).control_socket):
        paths = Paths.of_user(environ | {"LMTB_STATE_DIR": f"{environ['HOME']}/own"})
    assert paths.runtime_dir == Path(environ["HOME"], "own", "run")
    assert not paths.is_former


def test_managers_with_another_home_share_no_file_in_a_session(environ: dict[str, str]) -> None:
    other = Paths.of_user(environ | {"HOME": f"{environ['HOME']}/other"})
    assert other.memory_dir == Paths.of_user(environ).memory_dir is not None
    assert other.unsaved_file != Paths.of_user(environ).unsaved_file


def test_the_session_folder_of_the_users_own_home_is_found_without_its_variable(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Path(environ.pop("XDG_RUNTIME_DIR"))
    monkeypatch.setattr(paths, "session_folder", lambda environ: session)
    with listening(session / "lm-tools-bridge" / "control.sock"):
        assert Paths.of_user(environ).runtime_dir == session / "lm-tools-bridge"


def test_a_session_folder_open_to_others_counts_as_absent(environ: dict[str, str]) -> None:
    Path(environ["XDG_RUNTIME_DIR"]).chmod(0o1777)
    with listening(former_socket(environ)):
        assert not Paths.of_user(environ).is_former


@as_root_runtime_folder
def test_a_session_folder_of_another_user_counts_as_absent(environ: dict[str, str]) -> None:
    os.chown(environ["XDG_RUNTIME_DIR"], 65534, -1)
    with listening(former_socket(environ)):
        assert not Paths.of_user(environ).is_former


@as_root_runtime_folder
def test_a_socket_in_a_folder_of_another_user_is_not_asked(environ: dict[str, str]) -> None:
    with listening(former_socket(environ)):
        os.chown(former_socket(environ).parent, 65534, -1)
        assert not Paths.of_user(environ).is_former


def test_programs_of_earlier_versions_are_led_to_the_manager(environ: dict[str, str]) -> None:
    paths = Paths.of_user(environ)
    former_socket(environ).parent.mkdir(mode=0o700)
    with listening(paths.control_socket):
        leave_signposts(paths.control_socket, paths.former_dirs)
        with socket.socket(socket.AF_UNIX) as program:
            program.connect(str(former_socket(environ)))
        assert Paths.of_user(environ) == paths  # the link is not taken for a manager
        remove_signposts(paths.control_socket, paths.former_dirs)
    assert list(former_socket(environ).parent.iterdir()) == []


def test_no_folder_is_made_for_programs_of_earlier_versions(environ: dict[str, str]) -> None:
    paths = Paths.of_user(environ)
    leave_signposts(paths.control_socket, paths.former_dirs)
    assert list(Path(environ["XDG_RUNTIME_DIR"]).iterdir()) == []


def test_the_link_of_another_manager_is_not_removed(environ: dict[str, str]) -> None:
    folder = former_socket(environ).parent
    folder.mkdir(mode=0o700)
    leave_signposts(Path("/another/control.sock"), [folder])
    remove_signposts(Paths.of_user(environ).control_socket, [folder])
    assert former_socket(environ).is_symlink()


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_base_folders_are_those_of_the_last_manager_where_a_client_passes_none(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "moved").mkdir()
    moved = Paths.of_user({"HOME": str(tmp_path), name: str(tmp_path / "moved")})
    hold(moved, ENDED)
    for starts in (True, False):
        paths = Paths.of_user({"HOME": str(tmp_path)}, starts=starts)
        assert paths == moved
        assert tmp_path / "moved" in (paths.config_dir.parent, paths.state_dir.parent)
    emptied = Paths.of_user({"HOME": str(tmp_path), name: ""})
    assert tmp_path / "moved" not in (emptied.config_dir.parent, emptied.state_dir.parent)


@pytest.mark.parametrize("had", [True, False])
def test_base_folders_of_a_running_manager_are_in_force_whatever_a_shell_says(
    tmp_path: Path, had: bool
) -> None:
    """It was started by systemd, which has no variables of shells, or by another shell."""
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "of shell")}
    manager = Paths.of_user(environ | {"XDG_STATE_HOME": str(tmp_path / "of manager") if had else ""})
    hold(manager, os.getpid())
    assert Paths.of_user(environ) == manager
    assert Paths.of_user(environ, starts=True).state_dir.parent == tmp_path / "of shell"


def test_a_base_folder_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    hold(Paths.of_user({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "moved")}), ENDED)
    (tmp_path / "moved").rmdir()
    assert Paths.of_user({"HOME": str(tmp_path)}).state_dir == tmp_path / ".local/state/lm-tools-bridge"


def test_an_override_is_never_remembered(tmp_path: Path) -> None:
    hold(Paths.of_user({"HOME": str(tmp_path), "LMTB_CONFIG_DIR": str(tmp_path)}), ENDED)
    assert Paths.of_user({"HOME": str(tmp_path)}).config_dir == tmp_path / ".config/lm-tools-bridge"


@pytest.mark.parametrize(
    "content",
    [b"", b"XDG_", b"[]\n", json.dumps({"environment": {"XDG_STATE_HOME": "relative"}}).encode(),
     json.dumps({"environment": {"XDG_STATE_HOME": 7}}).encode(), b'{"environment": ["XDG_STATE_HOME"]}',
     json.dumps({"environment": {"HOME": "/", "LMTB_STATE_DIR": "/tmp"}}).encode(), b"[" * 4000 + b"XDG_"],
)  # fmt: skip
def test_a_lock_that_says_nothing_usable_moves_nothing(tmp_path: Path, content: bytes) -> None:
    before = Paths.of_user({"HOME": str(tmp_path)})
    before.runtime_dir.mkdir(parents=True, mode=0o700)
    before.lock_file.write_bytes(content)
    before.lock_file.chmod(0o600)
    assert Paths.of_user({"HOME": str(tmp_path)}) == before


def test_a_home_on_a_network_disk_has_its_sockets_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "are_local", lambda folders: False)
    own, others = (Paths.of_user({"HOME": str(tmp_path / name)}) for name in ("a", "b"))
    assert own.runtime_dir.parent == Path("/tmp")
    assert own.runtime_dir.name.startswith(f"lm-tools-bridge-{os.geteuid()}-")
    assert own.runtime_dir != others.runtime_dir
    assert own.state_dir == tmp_path / "a/.local/state/lm-tools-bridge"


def hold(paths: Paths, pid: int) -> None:
    """A manager with these paths begins and ends; `pid` stands for its own."""
    paths.runtime_dir.mkdir(parents=True, mode=0o700)
    lock = Lock.acquire(paths.lock_file, environment=paths.base_folders)
    assert isinstance(lock, Lock)
    lock.describe(address="http://127.0.0.1:1/mcp", version="1", started_at="now")
    lock.release()
    about = json.loads(paths.lock_file.read_text())
    paths.lock_file.write_text(json.dumps({**about, "pid": pid}))
