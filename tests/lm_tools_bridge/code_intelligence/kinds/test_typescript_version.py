"""Which TypeScript a project uses: the installed one, else what its package.json asks for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.typescript_version import (
    ProjectTypeScript,
    highest_major,
    project_typescript,
)
from support.projects.file_tree import write_tree


@pytest.mark.parametrize(
    ("wanted", "major"),
    [
        ("^5.9.3", 5),
        ("~5.6", 5),
        ("5", 5),
        ("4.9.x", 4),
        ("^4.9 || ^5.0", 5),
        (">=4.8 <6", 5),
        (">=4.8.4 <6.1.0", 6),
        ("4.8 - 5.9", 5),
        ("npm:typescript@5.4.2", 5),
        ("7.0.0-beta", 7),
        (">=5", None),
        ("*", None),
        ("latest", None),
        ("catalog:", None),
        ("workspace:*", None),
    ],
)
def test_a_range_of_npm_allows_versions_up_to_a_major_one(wanted: str, major: int | None) -> None:
    assert highest_major(wanted) == major


def _packages(root: Path) -> list[Path]:
    return [path for path in root.rglob("package.json") if "node_modules" not in path.parts]


def test_the_installed_version_counts_before_what_package_json_asks_for(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "package.json": json.dumps({"devDependencies": {"typescript": "^7.0.0"}}),
            "node_modules/typescript/package.json": json.dumps({"version": "5.9.3"}),
        },
    )
    assert project_typescript([tmp_path], _packages(tmp_path)) == ProjectTypeScript("5.9.3", 5, True)


def test_the_package_nearest_to_the_root_says_what_a_monorepo_uses(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "package.json": json.dumps({"workspaces": ["packages/*"]}),
            "packages/app/package.json": json.dumps({"dependencies": {"typescript": "~5.4.0"}}),
            "packages/app/old/package.json": json.dumps({"dependencies": {"typescript": "4.0.0"}}),
        },
    )
    assert project_typescript([tmp_path], _packages(tmp_path)) == ProjectTypeScript("~5.4.0", 5, False)


@pytest.mark.parametrize(
    "text", ["[", "[]", "{}", '{"devDependencies": 1}', '{"devDependencies": {"typescript": 5}}']
)
def test_a_package_that_says_nothing_of_typescript_leaves_the_choice_open(tmp_path: Path, text: str) -> None:
    (tmp_path / "package.json").write_text(text)
    assert project_typescript([tmp_path], _packages(tmp_path)) is None


def test_a_package_that_would_hang_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.json")
    assert project_typescript([tmp_path], [tmp_path / "package.json"]) is None


def test_answers_of_typescript_7_are_doubtful_for_older_projects_only() -> None:
    older = ProjectTypeScript("^5.9", 5, is_installed=False)
    assert "asks for TypeScript ^5.9" in older.doubt()
    assert "typescript-language-server" in older.doubt()
    assert not ProjectTypeScript("7.0.2", 7, is_installed=True).doubt()
