"""Ignore files and exclude settings, with both engines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.projects.file_tree import ENGINES, lines, names, write_tree
from workspace_server.sources.builtin.files.ignore import IgnoreFile
from workspace_server.sources.builtin.search.query import TextQuery

pytestmark = pytest.mark.parametrize("engine", ENGINES)

NEEDLE = TextQuery("needle", regex=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir(exist_ok=True)
    return write_tree(tmp_path / "proj", {"keep.txt": "needle\n"})


CASES = {
    "plain": (
        {".gitignore": "*.log\nbuild/\n", "a.log": "", "build/x": "", "src/b.log": "", "src/build": ""},
        [".gitignore", "keep.txt", "src/build"],
    ),
    "anchored": (
        {".gitignore": "/out\nlib/gen\n", "out": "", "x/out": "", "lib/gen": "", "x/lib/gen": ""},
        [".gitignore", "keep.txt", "x/lib/gen", "x/out"],
    ),
    "nested": (
        {
            ".gitignore": "*.log\n",
            "sub/.gitignore": "!keep.log\n/only\n",
            "sub/keep.log": "",
            "sub/a.log": "",
            "sub/only": "",
            "only": "",
            "sub/x/only": "",
        },
        [".gitignore", "keep.txt", "only", "sub/.gitignore", "sub/keep.log", "sub/x/only"],
    ),
    "rescued": (
        {".gitignore": "dir/**\n!dir/keep\n", "dir/keep": "", "dir/drop": "", "dir/sub/drop": ""},
        [".gitignore", "dir/keep", "keep.txt"],
    ),
    "not rescued": ({".gitignore": "dir/\n!dir/keep\n", "dir/keep": ""}, [".gitignore", "keep.txt"]),
    "rank": (
        {
            ".gitignore": "a\n!b\n!c\n",
            ".ignore": "!a\nb\n",
            ".rgignore": "c\n!b\n",
            "a": "",
            "b": "",
            "c": "",
        },
        [".gitignore", ".ignore", ".rgignore", "a", "b", "keep.txt"],
    ),
    "repository inside": (
        {".gitignore": "*.log\n", "mod/.git/HEAD": "", "mod/a.log": "", "mod/.ignore": "x\n", "mod/x": ""},
        [".gitignore", "keep.txt", "mod/.ignore", "mod/a.log"],
    ),
    "info exclude": ({".git/info/exclude": "secret\n", "secret": "", "x/secret": ""}, ["keep.txt"]),
    "info exclude of a repository inside": (
        {
            "mod/.git/info/exclude": "secret\n/top\n",
            "secret": "",
            "mod/x/secret": "",
            "mod/top": "",
            "mod/x/top": "",
        },
        ["keep.txt", "mod/x/top", "secret"],
    ),
    "info exclude of a submodule inside": (
        {
            ".git/modules/mod/info/exclude": "secret\n",
            "mod/.git": "gitdir: ../.git/modules/mod\n",
            "mod/.gitignore": "!x/secret\n",
            "mod/secret": "",
            "mod/x/secret": "",
        },
        ["keep.txt", "mod/.gitignore", "mod/x/secret"],
    ),
    "info exclude ends at a repository inside": (
        {
            "mod/.git/info/exclude": "secret\n",
            "mod/sub/.git/HEAD": "",
            "mod/secret": "",
            "mod/sub/secret": "",
        },
        ["keep.txt", "mod/sub/secret"],
    ),
    "comments and blanks": (
        {".gitignore": "# x\n\n\\#y\n[\nz  \n", "# x": "", "#y": "", "z": "", "[": ""},
        ["# x", ".gitignore", "[", "keep.txt"],
    ),
    "excludes": (
        {
            ".vscode/settings.json": '{ // y\n "files.exclude": {"**/*.gen": true, "out": true, "no": false,'
            ' "w": {"when": "x"},},'
            ' "search.exclude": {"vendor/{a,b}": true, "**/odd[!x]": true, "sub/de*/**": true,}, /* */ }',
            "a.gen": "",
            "x/b.gen": "",
            "out/x": "",
            "x/out": "",
            "no": "",
            "w": "",
            "vendor/a/x": "",
            "vendor/c": "",
            "odd1": "",
            "oddx": "",
            "sub/deep/x": "",
            "sub/x": "",
            "x.gen/y": "",
        },
        [".vscode/settings.json", "keep.txt", "no", "oddx", "sub/x", "vendor/c", "w", "x/out"],
    ),
    "excludes of a workspace file": (
        {
            "x.code-workspace": '{"folders": [], "settings": {"files.exclude": {"one": true, "two": true}}}',
            ".vscode/settings.json": '{"files.exclude": {"two": false}}',
            "one": "",
            "two": "",
        },
        [".vscode/settings.json", "keep.txt", "two", "x.code-workspace"],
    ),
    "defaults": (
        {"node_modules/x": "", ".svn/x": "", ".hg/x": "", "a/bower_components/x": "", ".DS_Store": ""},
        ["keep.txt"],
    ),
    "default taken back": (
        {".vscode/settings.json": '{"search.exclude": {"**/node_modules": false}}', "node_modules/x": ""},
        [".vscode/settings.json", "keep.txt", "node_modules/x"],
    ),
    "ignore files off": (
        {
            ".vscode/settings.json": '{"search.useIgnoreFiles": false, "files.exclude": {"ex": true}}',
            ".gitignore": "a\n",
            ".git/info/exclude": "b\n",
            "a": "",
            "b": "",
            "ex": "",
            "glob.al": "",
        },
        [".gitignore", ".vscode/settings.json", "a", "b", "glob.al", "keep.txt"],
    ),
    "global off": (
        {".vscode/settings.json": '{"search.useGlobalIgnoreFiles": false}', "glob.al": ""},
        [".vscode/settings.json", "glob.al", "keep.txt"],
    ),
    "global": (
        {"glob.al": "", "sub/glob.al": "", ".gitignore": "!sub/glob.al\n"},
        [".gitignore", "keep.txt", "sub/glob.al"],
    ),
    "broken settings": (
        {".vscode/settings.json": '{"files.exclude": {"a": true}', "a": ""},
        [".vscode/settings.json", "a", "keep.txt"],
    ),
    "odd settings": (
        {".vscode/settings.json": '{"files.exclude": ["a"], "search.exclude": null}', "a": ""},
        [".vscode/settings.json", "a", "keep.txt"],
    ),
    "git": ({".git/config": "", "sub/.git": "gitdir: x", "sub/a": ""}, ["keep.txt", "sub/a"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_the_project_hides_is_left_out(engine: str, root: Path, case: str) -> None:
    files, expected = CASES[case]
    write_tree(root.parent / "home", {".config/git/ignore": "*.al\n"})
    write_tree(root, {name: content or "needle\n" for name, content in files.items()})
    assert sorted(await names(engine, root)) == expected
    hits = {name for name, _, _ in await lines(engine, root, NEEDLE)}
    assert hits == {name for name in expected if (root / name).read_text() == "needle\n"}


@pytest.mark.parametrize("case", CASES)
async def test_ignored_files_are_found_on_request_but_never_git(engine: str, root: Path, case: str) -> None:
    files, _ = CASES[case]
    write_tree(root, files)
    everything = {name for name in [*files, "keep.txt"] if ".git" not in name.split("/")}
    assert set(await names(engine, root, ignored=True)) == everything


async def test_global_ignore_file_is_the_one_git_is_configured_with(engine: str, root: Path) -> None:
    home = root.parent / "home"
    write_tree(home, {".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "*.mine\n"})
    write_tree(home, {".config/git/ignore": "keep.txt\n"})
    write_tree(root, {"a.mine": ""})
    assert await names(engine, root) == ["keep.txt"]


async def test_ignore_file_above_the_folder_does_not_count(engine: str, root: Path) -> None:
    write_tree(root.parent, {".gitignore": "keep.txt\n"})
    assert await names(engine, root) == ["keep.txt"]


async def test_include_pattern_does_not_bring_ignored_files_back(engine: str, root: Path) -> None:
    write_tree(root, {".gitignore": "*.log\n!wanted.txt\n", "a.log": "needle", "src/wanted.txt": "needle"})
    assert await lines(engine, root, NEEDLE, "*.log") == []
    assert await names(engine, root, "*.log") == []
    assert await names(engine, root, "keep.txt") == ["keep.txt"]


def test_hostile_ignore_file_does_not_backtrack_for_ever(engine: str) -> None:
    del engine
    hostile = IgnoreFile.of(["*a" * 40 + "b", "!" + "**/a/" * 30 + "b"])
    assert hostile is not None
    started = time.process_time()
    assert hostile.verdict("a" * 250) is None
    assert hostile.verdict("a/" * 200) is None
    assert time.process_time() - started < 5
