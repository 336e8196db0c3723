"""The file of recorded calls: private, also where it is a copy."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from lm_tools_bridge.recorder.database import open_to_read, open_to_write


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_file_that_others_could_read_becomes_private(tmp_path: Path) -> None:
    file = tmp_path / "calls.sqlite3"
    open_to_write(file).close()
    file.chmod(0o644)
    with closing(open_to_write(file)):
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_is_read_where_nothing_can_be_written_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "calls.sqlite3"
    open_to_write(file).close()
    (tmp_path / "calls.sqlite3-shm").mkdir()  # as in a folder that is read-only, also for root
    found = open_to_read(file)
    assert found is not None
    with closing(found):
        assert found.execute("SELECT count(*) FROM calls").fetchone() == (0,)
