"""Settings files of editors."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files.editor_settings import MAX_FILE_BYTES, parse_jsonc, read_rules


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff// first\n{"a": 1, // why\n /* b */ "b": [1, 2, ], }', {"a": 1, "b": [1, 2]}),
        ('{"url": "http://x/*y*/", "c": ",}"}', {"url": "http://x/*y*/", "c": ",}"}),
        ('{"quote": "\\"// no comment"}', {"quote": '"// no comment'}),
        ('{"a": 1} /* never closed', {"a": 1}),
    ],
)
def test_comments_and_trailing_commas_are_tolerated(text: str, value: Any) -> None:
    assert parse_jsonc(text) == value


@pytest.mark.parametrize("text", ["", "{", "{,}x", "[" * 100_000, '{"a": NaN}'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_jsonc(text)


@pytest.mark.parametrize("text", ['\\"' * 500_000, '"' * 1_000_001, "/*" * 500_000, "," * 1_000_000])
def test_hostile_settings_file_is_read_in_linear_time(text: str) -> None:
    """A project's file must not hold up everybody else's calls."""
    started = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        parse_jsonc(text)
    assert time.process_time() - started < 5


def test_folder_beats_workspace_file_key_by_key(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "proj",
        {
            "a.code-workspace": '{"settings": {"files.exclude": {"x": true, "y": true}, '
            '"search.followSymlinks": false}}',
            "b.code-workspace": '{"settings": 3}',
            ".vscode/settings.json": '{"files.exclude": {"y": false}, "search.exclude": {"z": true}}',
        },
    )
    workspace = workspace_of(root)
    rules = read_rules(workspace, workspace.folders[0])
    assert {"x", "z"} <= set(rules.excludes)
    assert "y" not in rules.excludes
    assert (rules.follow_symlinks, rules.use_ignore_files, rules.use_global_ignore_files) == (
        False,
        True,
        True,
    )


def test_ignored_files_on_request_keep_only_the_rule_on_links(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "proj", {".vscode/settings.json": '{"search.followSymlinks": false}'})
    workspace = workspace_of(root)
    rules = read_rules(workspace, workspace.folders[0], include_ignored=True)
    assert (rules.excludes, rules.use_ignore_files, rules.use_global_ignore_files) == ((), False, False)
    assert not rules.follow_symlinks


def test_settings_that_are_no_small_file_of_the_workspace_say_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside.json": '{"files.exclude": {"x": true}}'})
    for name in ("link", "pipe", "huge", "folder"):
        (tmp_path / name / ".vscode").mkdir(parents=True)
    (tmp_path / "link/.vscode/settings.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(tmp_path / "pipe/.vscode/settings.json")
    huge = '{"files.exclude": {"x": true}}' + " " * MAX_FILE_BYTES
    write_tree(tmp_path, {"huge/.vscode/settings.json": huge, "folder/.vscode/settings.json/": ""})
    for name in ("link", "pipe", "huge", "folder"):
        workspace = workspace_of(tmp_path / name)
        assert "x" not in read_rules(workspace, workspace.folders[0]).excludes
