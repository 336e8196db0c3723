"""Tests of single facts; `test_verb.py` shows that they are gathered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manager.cli.service.facts import files_folder, is_in_cache, program_command


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/home/a/.cache/uv/archive-v0/zZ3-HU/bin/python", True),
        ("/home/a/.cache/uv/environments-v2/x-1/bin/python", True),
        ("/home/a/.local/share/uv/tools/lm-tools-bridge/bin/python", False),
        ("/home/a/.local/share/pipx/venvs/lm-tools-bridge/bin/python", False),
    ],
)
def test_environment_of_uvx_is_temporary(program: str, expected: bool) -> None:
    assert is_in_cache(Path(program)) is expected


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({"HOME": "/h"}, "linux", "/h/.config/systemd/user"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "linux", "/c/systemd/user"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, "linux", "/h/.config/systemd/user"),
        ({"HOME": "/h"}, "darwin", "/h/Library/LaunchAgents"),
    ],
)
def test_files_belong_where_the_service_manager_reads_them(
    environ: dict[str, str], platform: str, folder: str
) -> None:
    assert files_folder(environ, platform) == Path(folder)


def test_program_of_this_environment_is_started() -> None:
    program, *rest = program_command()
    assert os.access(program, os.X_OK)
    assert rest in ([], ["-I", "-m", "manager"])
