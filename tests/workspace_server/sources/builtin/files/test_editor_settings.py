"""Settings files of editors."""

from __future__ import annotations

import os
from pathlib import Path

from lm_tools_bridge.machine.regular_file import MAX_SETTINGS
from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files.editor_settings import read_rules


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
    huge = '{"files.exclude": {"x": true}}' + " " * MAX_SETTINGS
    write_tree(tmp_path, {"huge/.vscode/settings.json": huge, "folder/.vscode/settings.json/": ""})
    for name in ("link", "pipe", "huge", "folder"):
        workspace = workspace_of(tmp_path / name)
        assert "x" not in read_rules(workspace, workspace.folders[0]).excludes
