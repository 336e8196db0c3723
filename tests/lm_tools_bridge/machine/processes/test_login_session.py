"""Finding the folder of the user's login session without its variable."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.machine.processes import login_session
from lm_tools_bridge.machine.processes.login_session import session_folder, with_session_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd makes these folders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / str(os.geteuid())
    made.mkdir()
    return made


@pytest.mark.parametrize("named", [True, False])
def test_the_users_own_home_leads_to_the_folder(folder: Path, named: bool) -> None:
    environ = {"HOME": pwd.getpwuid(os.geteuid()).pw_dir} if named else {}
    assert session_folder(environ, folder.parent) == folder
    assert session_folder(environ, folder.parent / "none") is None


def test_with_another_home_nothing_of_the_users_sessions_is_found(folder: Path) -> None:
    assert session_folder({"HOME": "/another"}, folder.parent) is None


def test_programs_get_the_variable_only_where_it_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_session, "session_folder", lambda environ: folder)
    assert with_session_folder({"A": "1"}) == {"A": "1", "XDG_RUNTIME_DIR": str(folder)}
    assert with_session_folder({"XDG_RUNTIME_DIR": "/mine"}) == {"XDG_RUNTIME_DIR": "/mine"}
    monkeypatch.setattr(login_session, "session_folder", lambda environ: None)
    assert with_session_folder({"A": "1"}) == {"A": "1"}
