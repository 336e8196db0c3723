"""Why a server may not know a file: what a configuration, a build constraint or another package says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools.word_check.unknown_files import FileReasons, is_included
from support.projects.file_tree import write_tree


def reasons(
    tmp_path: Path, suffix: str, language: str, home: str, files: Mapping[str, str]
) -> dict[str, str]:
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", {home: "", **files})
    specification = ServerSpecification("server", {suffix: language}, (("server",),))
    found = FileReasons(specification, root / home, [root], lambda path: path.read_text().split("\n"))
    told = found.of_files([root / name for name in files if name.endswith((suffix, ".vue"))])
    return {Path(path).relative_to(root).as_posix(): reason for path, reason in told.items()}


@pytest.mark.parametrize(
    ("members", "path", "included"),
    [
        ({}, "src/a.ts", True),
        ({"exclude": ["tests"]}, "tests/a.ts", False),
        ({"exclude": ["./tests/"]}, "src/tests.ts", True),
        ({"exclude": ["**/*.test.ts"]}, "src/deep/a.test.ts", False),
        ({"exclude": ["**/*.test.ts"]}, "a.test.ts", False),
        ({"include": ["src"]}, "src/deep/a.ts", True),
        ({"include": ["src/**/*"]}, "src/a.ts", True),
        ({"include": ["src/*"]}, "scripts/a.ts", False),
        ({"files": ["index.ts"]}, "other.ts", False),
        ({"files": ["./index.ts"], "exclude": ["index.ts"]}, "index.ts", True),
        ({"files": [], "references": []}, "src/a.ts", False),
        ({"include": 3}, "src/a.ts", True),
    ],
)
def test_a_configuration_includes_files_by_its_patterns(
    members: Mapping[str, Any], path: str, included: bool
) -> None:
    assert is_included(path, members) is included


def test_a_file_that_a_tsconfig_leaves_out_is_told_with_it(tmp_path: Path) -> None:
    files = {
        "app/tsconfig.json": '{\n  // for the build\n  "exclude": ["**/*.test.ts"],\n}',
        "app/src/b.test.ts": "",
        "app/src/c.ts": "",
        "loose.ts": "",
        "app/src/d.vue": "",
    }
    assert reasons(tmp_path, ".ts", "typescript", "app/src/a.ts", files) == {
        "app/src/b.test.ts": "excluded by app/tsconfig.json",
        "loose.ts": "no tsconfig.json or jsconfig.json above it",
        "app/src/d.vue": "server does not read .vue files",
    }


@pytest.mark.parametrize("place", ["compile_commands.json", "build/compile_commands.json"])
def test_a_source_that_the_compilation_database_lacks_is_told(tmp_path: Path, place: str) -> None:
    root = Path(os.path.realpath(tmp_path)) / "proj"
    files = {place: json.dumps([{"directory": str(root), "file": "b.c"}, 3]), "b.c": "", "tests/c.c": ""}
    assert reasons(tmp_path, ".c", "c", "a.c", files) == {"tests/c.c": "not in compile_commands.json"}


def test_a_go_file_with_a_constraint_or_in_another_module_is_told(tmp_path: Path) -> None:
    files = {
        "go.mod": "module x",
        "b.go": "package x",
        "b_windows.go": "package x",
        "c.go": "// Licence\n\n//go:build tools\n\npackage x",
        "tools/go.mod": "module y",
        "tools/d.go": "package y",
    }
    assert reasons(tmp_path, ".go", "go", "a.go", files) == {
        "b_windows.go": "it has a build constraint",
        "c.go": "it has a build constraint",
        "tools/d.go": "in the package of tools/go.mod",
    }


def test_a_rust_file_of_another_package_is_told(tmp_path: Path) -> None:
    files = {"Cargo.toml": "", "src/b.rs": "", "fuzz/Cargo.toml": "", "fuzz/c.rs": ""}
    assert reasons(tmp_path, ".rs", "rust", "src/a.rs", files) == {
        "fuzz/c.rs": "in the package of fuzz/Cargo.toml"
    }


def test_a_broken_configuration_is_no_reason(tmp_path: Path) -> None:
    assert reasons(tmp_path, ".ts", "typescript", "a.ts", {"tsconfig.json": "{", "b.ts": ""}) == {}
