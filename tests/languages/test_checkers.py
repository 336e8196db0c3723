"""Compilers and linters of others, run once a check, know the files as they are after each edit by others."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.session.checker import Checker
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from support.projects.edited_project import GO, PYTHON, RUST, TYPESCRIPT, EditedProject, Language
from support.servers.language_servers.real_language_servers import environment, skip_absent
from workspace_server.processes.child_process import Command

MYPY: Final = replace(
    PYTHON,
    configuration=lambda loose, root, names: (
        f"[tool.mypy]\ncheck_untyped_defs = true\n{'ignore_errors = true' if loose else ''}\n"
    ),
)
CHECKERS: Final[Mapping[str, Language]] = {
    "mypy": MYPY,
    "tsc": TYPESCRIPT,
    "cargo-check": RUST,
    "go-vet": GO,
}
NEEDS: Final = {"cargo-check": "rust-analyzer", "go-vet": "gopls"}
"""Those that come with the same toolchain."""
EDITS: Final = (
    "break",
    "create",
    "fix",
    "delete",
    "dependency",
    "rename",
    "configuration",
    "checkout",
    "add",
)
WAIT_S: Final = 120.0
SIZE: Final = 4
SEED: Final = 7


@pytest.mark.parametrize("name", CHECKERS)
async def test_a_checker_tells_of_each_edit_of_others(name: str, installed: Path, tmp_path: Path) -> None:
    skip_absent(NEEDS.get(name, name), installed)
    root, home = tmp_path / "project", tmp_path / "home"
    home.mkdir()
    project = EditedProject(root, CHECKERS[name], SIZE, SEED)
    kind = KINDS[name]
    assert kind.check is not None
    if name == "go-vet":
        (root / "main.go").write_text("package main\n\nfunc main() {}\n")
    env = environment(installed, home)
    [(program, *arguments)] = kind.commands
    path = installed / "npm/node_modules/.bin" / program  # TypeScript 5
    found = str(path) if name == "tsc" else shutil.which(program, path=env["PATH"])
    assert found is not None
    launch = Launch(kind, Command((found, *arguments), env, str(root)), (root,), "1")
    checker = Checker(launch, kind.check, TreeWatch([root]))
    await checker.tell_changes()
    try:
        edits = list(EDITS)
        random.Random(SEED).shuffle(edits)
        for edit in edits:
            file = project.edit(edit)
            answer = await checker.diagnostics(None, WAIT_S)
            wrong = {
                one.path.name
                for one in answer.files
                if any(found.get("severity") == 1 for found in one.diagnostics)
            }
            assert answer.freshness.state in {"fresh", "partial"}, (edit, answer.freshness)
            asked = {file, project.dependent, project.configured}
            truth = {one for one in asked if not project.is_right(one)}
            if answer.freshness.state == "fresh":
                assert (edit, wrong & asked) == (edit, truth)
            else:  # it stopped at errors: what it says is true, and that there is something
                assert (edit, wrong <= {*project.broken, project.dependent, project.configured}) == (
                    edit,
                    True,
                )
                assert wrong
    finally:
        await checker.close()
