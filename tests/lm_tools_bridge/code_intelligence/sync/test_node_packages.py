"""Which packages a project of Node.js lacks, and what brings them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.sync.node_packages import missing_packages
from support.projects.file_tree import write_tree

CORE = {"name": "@x/core", "types": "dist/index.d.ts", "main": "dist/index.js"}
APP = {"name": "@x/app", "dependencies": {"@x/core": "workspace:*"}}
MONOREPO = {
    "package.json": json.dumps({"workspaces": ["packages/*"], "scripts": {"build": "tsc -b"}}),
    "packages/core/package.json": json.dumps(CORE),
    "packages/app/package.json": json.dumps(APP),
    "node_modules/.package-lock.json": "{}",
}


def told(root: Path, files: dict[str, str]) -> str:
    """What is told of a project with these files."""
    write_tree(root, files)
    own = [str(path) for path in root.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    return missing_packages([root], own)


@pytest.mark.parametrize(
    ("lock", "command"),
    [
        ("package-lock.json", "npm install"),
        ("pnpm-lock.yaml", "pnpm install"),
        ("yarn.lock", "yarn install"),
        ("", "npm install"),
    ],
)
def test_dependencies_that_were_not_installed_are_told_with_the_command(
    tmp_path: Path, lock: str, command: str
) -> None:
    package = json.dumps(
        {"dependencies": {"react": "1", "vue": "3"}, "devDependencies": {"a": "1", "b": "1"}}
    )
    files = {"package.json": package} | ({lock: ""} if lock else {})
    reason = told(tmp_path, files)
    assert (
        f"node_modules is missing, so imports of a, b, react and 1 more are not resolved; `{command}`"
        in reason
    )


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": "{}"},
        {"package.json": '{"dependencies": {"a": "1"}}', "node_modules/a/index.js": ""},
        {"package.json": '{"dependencies": {"a": "1"}}', ".pnp.cjs": ""},
        {"examples/one/package.json": '{"dependencies": {"a": "1"}}'},
        {"package.json": "[", "a.ts": ""},
        {"package.json": '{"dependencies": 7}'},
        {"package.json": '{"dependencies": {"b": "*"}}', "b/package.json": '{"name": "b"}'},
    ],
)
def test_nothing_is_missing_where_nothing_else_is_needed_or_all_is_there(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert told(tmp_path, files) == ""


def test_a_package_of_the_project_that_was_not_built_is_told(tmp_path: Path) -> None:
    reason = told(tmp_path, MONOREPO)
    assert reason.startswith("@x/core of this project has not been built")
    assert "`npm run build`" in reason
    assert told(tmp_path, {"packages/core/dist/index.d.ts": ""}) == ""


def test_the_conditions_of_exports_lead_to_what_was_built(tmp_path: Path) -> None:
    conditions = {".": {"import": {"types": "./lib/a.d.mts", "default": "./lib/a.mjs"}}, "./x": "./lib/x.js"}
    core = json.dumps({"name": "@x/core", "exports": conditions})
    assert told(tmp_path, {**MONOREPO, "packages/core/package.json": core})
    assert told(tmp_path, {"packages/core/lib/a.mjs": ""}) == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"compilerOptions": {"paths": {"@x/core": ["packages/core/src"]}}},
        {"compilerOptions": {"customConditions": ["source"]}},
    ],
)
def test_a_package_whose_sources_stand_for_what_is_built_lacks_nothing(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    assert told(tmp_path, {**MONOREPO, "tsconfig.base.json": json.dumps(settings)}) == ""


def test_a_package_that_nothing_imports_need_not_be_built(tmp_path: Path) -> None:
    app = json.dumps({"name": "@x/app", "dependencies": {}})
    assert told(tmp_path, {**MONOREPO, "packages/app/package.json": app}) == ""


@pytest.mark.parametrize("entry", ["../../outside.js", "/etc/passwd"])
def test_a_package_leads_nowhere_outside_of_its_folder(tmp_path: Path, entry: str) -> None:
    core = json.dumps({"name": "@x/core", "types": entry, "main": "dist/a.js"})
    assert "@x/core" in told(tmp_path, {**MONOREPO, "packages/core/package.json": core})


def test_a_package_that_would_hang_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.json")
    assert missing_packages([tmp_path], [str(tmp_path / "package.json")]) == ""
