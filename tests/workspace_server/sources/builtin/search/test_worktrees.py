"""Searches leave out git worktrees inside the tree that they are copies of, unless a pattern names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.file_tree import ENGINES, lines, names, settings_of, workspace_of
from support.projects.git_repositories import git, repository, worktree
from workspace_server.sources.builtin.files import directory
from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.sources.builtin.search.query import TextQuery
from workspace_server.sources.builtin.tools import find_files as find_files_tool
from workspace_server.sources.builtin.tools import find_text as find_text_tool
from workspace_server.sources.builtin.tools import list_directory, read_file
from workspace_server.tool import InvalidArguments

DEF = TextQuery("def f", regex=False)
FEAT = ".claude/worktrees/feat"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ignored", [False, True])
async def test_copies_below_the_main_tree_are_left_out(tmp_path: Path, engine: str, ignored: bool) -> None:
    main = repository(tmp_path / "main")
    for path in (FEAT, ".claude/worktrees/other", "elsewhere/tree"):
        worktree(main, path)
    (main / ".claude" / "settings.py").write_text("def f(): ...\n")
    expected = [".claude/settings.py", "mod.py"]
    assert sorted(await names(engine, main, "*.py", ignored=ignored)) == expected
    found = await lines(engine, main, DEF, ignored=ignored)
    assert sorted(path for path, _, _ in found) == expected


def excluded(root: Path) -> None:
    """Files that the repository's `info/exclude` hides, and one that it does not."""
    (root / "scratch").mkdir()
    for name in ("scratch/notes.txt", "k.secret", "seen.txt"):
        (root / name).write_text("def f(): ...\n")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", ["main", "beside", "inside", "submodule", "separate"])
async def test_what_the_common_exclude_file_hides_is_hidden_in_each_worktree(
    tmp_path: Path, engine: str, place: str
) -> None:
    main = repository(tmp_path / "main")
    (main / ".git/info").mkdir(exist_ok=True)
    exclude = main / ".git/info/exclude"
    root = main
    if place == "beside":
        root = worktree(main, "../beside")
    elif place == "inside":
        root = worktree(main, FEAT)
    elif place == "submodule":
        root = repository(tmp_path / "sub")
        (root / ".git").rename(tmp_path / "main/.git/modules")
        (root / ".git").write_text("gitdir: ../main/.git/modules\n")
        exclude = main / ".git/modules/info/exclude"
    elif place == "separate":
        (main / ".git").rename(tmp_path / "store")
        (main / ".git").write_text(f"gitdir: {tmp_path}/store\n")
        exclude = tmp_path / "store/info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("scratch/\n*.secret\n")
    excluded(root)
    found = {*await names(engine, root), *(path for path, _, _ in await lines(engine, root, DEF))}
    assert {name for name in found if name.endswith((".txt", ".secret"))} == {"seen.txt"}


async def test_a_kept_list_notices_that_the_common_exclude_file_changed(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    root = worktree(main, "../beside")
    excluded(root)
    settings = settings_of("python", tmp_path)
    where, workspace = Where("k.secret", "/query"), workspace_of(root)
    assert len((await find_files(workspace, where, 9, settings)).items) == 1
    (main / ".git/info").mkdir(exist_ok=True)
    (main / ".git/info/exclude").write_text("*.secret\n")
    assert (await find_files(workspace, where, 9, settings)).items == ()


async def test_a_kept_list_notices_that_the_exclude_file_of_a_repository_inside_changed(
    tmp_path: Path,
) -> None:
    main = repository(tmp_path / "main")
    inner = repository(main / "inner")
    excluded(inner)
    settings = settings_of("python", tmp_path)
    where, workspace = Where("k.secret", "/query"), workspace_of(main)
    assert len((await find_files(workspace, where, 9, settings)).items) == 1
    (inner / ".git/info").mkdir(exist_ok=True)
    (inner / ".git/info/exclude").write_text("*.secret\n")
    assert (await find_files(workspace, where, 9, settings)).items == ()


@pytest.mark.parametrize("is_worktree", [False, True])
async def test_the_excludes_file_that_the_repository_names_counts(tmp_path: Path, is_worktree: bool) -> None:
    main = repository(tmp_path / "main")
    (tmp_path / "mine").write_text("*.secret\nscratch/\n")
    git(main, "config", "core.excludesFile", str(tmp_path / "mine"))
    root = worktree(main, "../beside") if is_worktree else main
    excluded(root)
    found = await names("python", root)
    assert "seen.txt" in found and "k.secret" not in found and "scratch/notes.txt" not in found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "pattern",
    [
        FEAT,
        f"{FEAT}/**",
        f"{FEAT}/mod.py",
        f"{FEAT}/*.py",
        f"main/{FEAT}/**/mod.py",
        "{root}/" + FEAT + "/mod.*",
        "{{elsewhere," + FEAT + "}}/*.py",
    ],
)
@pytest.mark.parametrize("ignored", [False, True])
async def test_a_pattern_that_names_a_copy_searches_it_alone(
    tmp_path: Path, engine: str, pattern: str, ignored: bool
) -> None:
    main = repository(tmp_path / "main")
    worktree(main)
    worktree(main, ".claude/worktrees/other")
    if ignored:
        (main / ".gitignore").write_text(".claude/\n")
    query = pattern.format(root=main)
    assert await names(engine, main, query) == [f"{FEAT}/mod.py"]
    assert await lines(engine, main, DEF, query) == [(f"{FEAT}/mod.py", 1, 1)]


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_workspace_that_is_itself_a_worktree_is_searched(tmp_path: Path, engine: str) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    inner = worktree(tree, "inner")
    assert await names(engine, tree, "*.py") == ["mod.py"]
    assert await names(engine, inner, "*.py") == ["mod.py"]
    assert await names(engine, tree, "inner/*.py") == ["inner/mod.py"]
    assert await names(engine, main, f"{FEAT}/inner/*") == [f"{FEAT}/inner/mod.py"]
    assert await names(engine, main, f"{FEAT}/**/*.py") == [f"{FEAT}/mod.py"]


@pytest.mark.parametrize("engine", ENGINES)
async def test_what_is_no_copy_stays(tmp_path: Path, engine: str) -> None:
    library = repository(tmp_path / "library", lib_py="def f(): ...\n")
    main = repository(tmp_path / "main")
    git(main, "submodule", "--quiet", "add", str(library), "sub")
    tree = worktree(main)
    hostile = main / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_bytes((tree / ".git").read_bytes())
    (hostile / "mod.py").write_text("def f(): ...\n")
    assert await names(engine, main, "*.py") == ["mod.py", "hostile/mod.py", "sub/lib.py"]
    found = await lines(engine, main, DEF)
    assert [path for path, _, _ in found] == ["mod.py", "hostile/mod.py", "sub/lib.py"]


async def test_worktrees_around_a_bare_repository_are_searched(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "clone", "-q", "--bare", str(source), ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    for name in ("one", "two"):
        git(project / ".bare", "worktree", "add", "-q", "--detach", str(project / name))
    assert await names("python", project, "*.py") == ["one/mod.py", "two/mod.py"]


async def test_repositories_below_the_root_have_their_copies_left_out_too(tmp_path: Path) -> None:
    projects = tmp_path / "projects"
    worktree(repository(projects / "a"))
    worktree(repository(projects / "b"), "../beside")
    assert await names("python", projects, "*.py") == ["a/mod.py", "b/mod.py", "beside/mod.py"]


async def test_a_kept_list_notices_worktrees_that_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "SETTLED_NS", 0)  # so that lists are kept at once
    main = repository(tmp_path / "main")
    settings, workspace = settings_of("python", tmp_path / "home"), workspace_of(main)

    async def listed() -> list[str]:
        found = await find_files(workspace, Where("*.py", "/query"), 100, settings)
        return [path.relative_to(main).as_posix() for path in found.items]

    assert await listed() == ["mod.py"]
    tree = worktree(main)
    assert await listed() == ["mod.py"]
    assert await listed() == ["mod.py"]
    # no longer registered, it is an ordinary folder
    (main / ".git" / "worktrees" / "feat" / "gitdir").rename(tmp_path / "gitdir")
    assert await listed() == ["mod.py", f"{FEAT}/mod.py"]
    (tmp_path / "gitdir").rename(main / ".git" / "worktrees" / "feat" / "gitdir")
    assert await listed() == ["mod.py"]
    git(main, "worktree", "remove", "--force", str(tree))
    assert await listed() == ["mod.py"]


@pytest.mark.parametrize("pattern", ["new.py", "*.rs,new.py", "src/new.py"])
async def test_an_empty_result_names_the_copies_that_have_such_files(tmp_path: Path, pattern: str) -> None:
    main = repository(tmp_path / "main")
    worktree(main)
    tree = worktree(main, ".claude/worktrees/other")
    (tree / "src").mkdir()
    for place in (tree, tree / "src"):
        (place / "new.py").write_text("def f(): ...\n")
    query = f"{{{pattern}}}" if "," in pattern else pattern
    found = await find_files_tool.call(workspace_of(main), {"query": query})
    assert found.structured["note"] == (
        "only files in git worktrees inside the project match; begin the pattern with one of: "
        "main/.claude/worktrees/other"
    )
    found = await find_text_tool.call(workspace_of(main), {"query": "f", "includePattern": query})
    assert "main/.claude/worktrees/other" in found.structured["note"]
    found = await find_files_tool.call(workspace_of(main), {"query": "nowhere.py"})
    assert "note" not in found.structured
    found = await find_files_tool.call(workspace_of(main), {"query": f"main/.claude/worktrees/other/{query}"})
    assert str(tree / pattern.rpartition(",")[2]) in found.structured["files"]


@pytest.mark.parametrize("rest", ["/**", "/mod.py", "/{mod,x}.py", ""])
async def test_a_pattern_that_leads_into_another_worktree_is_refused_by_name(
    tmp_path: Path, rest: str
) -> None:
    main = repository(tmp_path / "main")
    beside = worktree(main, "../beside")
    workspace = workspace_of(main)
    for call in (
        find_files_tool.call(workspace, {"query": f"{beside}{rest}"}),
        find_text_tool.call(workspace, {"query": "f", "includePattern": f"{beside}{rest}"}),
    ):
        with pytest.raises(
            InvalidArguments, match=f"it lies in {beside}, another worktree of its repository"
        ):
            await call
    found = await find_files_tool.call(workspace, {"query": f"{tmp_path}/nowhere/*"})
    assert found.structured["count"] == 0


def entries(main: Path, **arguments: object) -> list[str]:
    workspace = workspace_of(main)
    structured = list_directory._list(workspace, arguments, {}).structured
    return [entry["workspacePath"].partition("/")[2] for entry in structured["entries"]]


def test_a_directory_shows_a_copy_and_its_contents_only_if_it_is_named(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    worktree(main)
    assert FEAT in entries(main, depth=5)
    assert entries(main, filePath=".claude/worktrees", depth=5) == [FEAT]
    assert entries(main, filePath=FEAT) == [f"{FEAT}/mod.py"]
    assert entries(main, filePath=FEAT, includeIgnoredFiles=True) == [f"{FEAT}/mod.py"]


async def test_a_file_in_a_copy_is_read_and_one_beside_the_workspace_is_refused_by_name(
    tmp_path: Path,
) -> None:
    main = repository(tmp_path / "main")
    inside, beside = worktree(main), worktree(main, "../beside")
    (inside / "mod.py").write_text("of the copy\n")
    for text in (f"{FEAT}/mod.py", str(inside / "mod.py")):
        result = await read_file.call(workspace_of(main), {"filePath": text})
        assert result.structured["content"] == "of the copy\n"
    for path in (beside / "mod.py", beside / "nowhere" / "mod.py"):
        with pytest.raises(InvalidArguments) as refused:
            await read_file.call(workspace_of(main), {"filePath": str(path)})
        assert refused.value.message == (
            f"outside the workspace {main}: it lies in {beside}, another worktree of its repository. Call the "
            f'tool there: lmToolsBridge.callTool with `cwd` "{beside}"'
        )
