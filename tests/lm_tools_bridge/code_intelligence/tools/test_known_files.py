"""Which files a server of TypeScript is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools.known_files import aliases_in, files_to_open


def test_one_file_of_each_project_and_all_of_none_are_opened_from_all_folders_first() -> None:
    a, b, c, d, e, f = map(Path, ("x/a", "x/b", "x/c", "x/d", "y/e", "z/f"))
    projects = {a: "one.json", b: "one.json", f: "two.json"}
    assert files_to_open([a, b, c, d, e, f], projects) == [a, f, c, e, d]


def test_without_knowledge_of_projects_all_files_are_opened() -> None:
    paths = [Path("x/a"), Path("y/b")]
    assert files_to_open(paths, {}) == paths


@pytest.mark.parametrize(
    ("line", "aliases"),
    [
        ("export { target as goal, other as thing } from './core'", ["goal", "thing"]),
        ("import { target as goal } from './core'", ["goal"]),
        ("export { target as default }", []),
        ("const x = target as const, y = target as any", []),
    ],
)
def test_other_names_of_a_symbol_are_read_from_imports_and_exports(line: str, aliases: list[str]) -> None:
    assert aliases_in([line]) == aliases
