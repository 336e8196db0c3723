"""Errors of disks read as clauses."""

from __future__ import annotations

import errno
import os

import pytest

from lm_tools_bridge.machine.files.disk_errors import worded


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EROFS, "x", "/home/me/.local"), "/home/me/.local is on a read-only file system"),
        (OSError(errno.ENOSPC, "x", "/home/me/f"), "the disk of /home/me/f is full"),
        (OSError(errno.EACCES, "x", "/home/me/f"), "this user may not write /home/me/f"),
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/f"), "Too many levels of symbolic links: /f"),
        (ValueError("database is locked"), "database is locked"),
    ],
)
def test_no_error_shows_its_number(error: Exception, text: str) -> None:
    assert worded(error) == text


def test_an_error_without_a_path_is_worded_without_its_number() -> None:
    assert worded(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    assert worded(OSError("strange")) == "strange"
