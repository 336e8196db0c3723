"""What a caller may have meant by a path where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.file_tree import settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.tools.neighbours import neighbours
from workspace_server.sources.builtin.tools.read_file import call
from workspace_server.tool import ToolError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_tree(tmp_path / "outside", {"secret.txt": ""})
    root = write_tree(
        tmp_path / "proj",
        {"src/parser.ts": "", "src/parse.ts": "", "src/deep/unique.py": "", "README.md": "", "lib/x": ""},
    )
    (root / "outsidf").symlink_to(tmp_path / "outside")
    return root


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("src/parsr.ts", ["proj/src/parser.ts", "proj/src/parse.ts"]),
        ("proj/scr/parser.ts", ["proj/src/parser.ts"]),
        ("readme.md", ["proj/README.md"]),
        ("lib/unique.py", ["proj/src/deep/unique.py"]),
        ("nothing/like/this.rs", []),
        ("outside/secret.txt", []),
        ("../outside/secret.tx", []),
        ("src/*.py", []),
        ("src/{a", []),
        ("src\\parsr.ts", ["proj/src/parser.ts", "proj/src/parse.ts"]),
    ],
)
async def test_near_paths_are_those_of_files_in_the_workspace(
    root: Path, asked: str, found: list[str]
) -> None:
    assert list(await neighbours(workspace_of(root), asked, settings_of("rg", root.parent))) == found


async def test_absolute_paths_have_neighbours_too(root: Path) -> None:
    near = await neighbours(workspace_of(root), f"{root}/src/parsr.ts", settings_of("rg", root.parent))
    assert near[0] == "proj/src/parser.ts"


async def test_reading_a_missing_file_names_them(root: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await call(workspace_of(root), {"filePath": "src/parsr.ts"})
    assert str(caught.value) == (
        'Error reading file "src/parsr.ts": no such file or directory;'
        " did you mean proj/src/parser.ts or proj/src/parse.ts?"
    )
