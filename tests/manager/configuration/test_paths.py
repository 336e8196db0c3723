"""Tests of manager.configuration.paths: where files live, and which folders are refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

import manager
from lm_tools_bridge.machine.files.private_files import UnsafePathError, make_private
from manager.configuration.paths import Paths
from manager.configuration.runtime_folder import MAX_SOCKET_PATH_BYTES

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
