"""Worktrees: what both the folder and the repository say is one; what only claims to be one is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lm_tools_bridge.machine.git_worktrees import (
    Worktree,
    copies_in,
    is_copy,
    is_tree_of,
    witnesses,
    worktree_at,
    worktrees_of_agents,
)
from support.projects.git_repositories import git, repository, worktree


def test_a_worktree_below_the_main_tree_is_a_copy(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    assert worktree_at(tree) == Worktree(tree, main / ".git")
    assert is_copy(tree)
    assert is_tree_of(main / ".git", main)
    assert is_tree_of(main / ".git", tree)


def test_a_worktree_beside_the_main_tree_is_one_but_no_copy(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main, "../beside")
    assert worktree_at(tree) == Worktree(tree, main / ".git")
    assert not is_copy(tree)


def test_a_worktree_in_a_worktree_is_a_copy(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    outer = worktree(main, "../beside")
    inner = worktree(outer, "inner")
    assert is_copy(inner)
    assert worktree_at(inner) == Worktree(inner, main / ".git")


def test_a_worktree_over_a_link_is_known_by_its_real_path(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    (tmp_path / "link").symlink_to(tree)
    assert worktree_at(tmp_path / "link") == Worktree(tree, main / ".git")


@pytest.mark.parametrize("place", [".bare", ".git"])
def test_worktrees_around_a_bare_repository_are_no_copies(tmp_path: Path, place: str) -> None:
    source = repository(tmp_path / "source")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "clone", "-q", "--bare", str(source), place)
    if place != ".git":
        (project / ".git").write_text(f"gitdir: ./{place}\n")
    git(project / place, "worktree", "add", "-q", "--detach", str(project / "one"))
    git(project / place, "worktree", "add", "-q", "--detach", str(project / "one" / "nested"))
    assert worktree_at(project / "one") == Worktree(project / "one", project / place)
    assert not is_copy(project / "one")
    assert is_copy(project / "one" / "nested")


def test_worktrees_inside_a_bare_repository_are_no_copies(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), "project.git")
    tree = worktree(tmp_path / "project.git", "one")
    assert worktree_at(tree) is not None
    assert not is_copy(tree)


def test_a_submodule_is_no_worktree_and_its_own_worktrees_are_copies(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    main = repository(tmp_path / "main")
    git(main, "submodule", "--quiet", "add", str(library), "sub")
    assert worktree_at(main / "sub") is None
    assert not is_copy(main / "sub")
    assert is_copy(worktree(main / "sub", "inner"))


def test_relative_paths_in_both_files_are_read(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    entry = main / ".git" / "worktrees" / "feat"
    (tree / ".git").write_text(f"gitdir: {os.path.relpath(entry, tree)}\n")
    (entry / "gitdir").write_text(f"{os.path.relpath(tree, entry)}/.git\n")
    assert is_copy(tree)


def test_a_moved_worktree_is_known_and_the_old_place_is_not(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    git(main, "worktree", "move", str(tree), "moved")
    assert is_copy(main / "moved")
    assert worktree_at(tree) is None


@pytest.mark.parametrize(
    "claim", ["entry", "repository", "own entry", "copy", "nothing", "link", "text", "no gitdir"]
)
def test_a_folder_that_only_claims_to_be_a_worktree_is_none(tmp_path: Path, claim: str) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    entry = main / ".git" / "worktrees" / "feat"
    hostile = main / "hostile"
    hostile.mkdir()
    pointer = hostile / ".git"
    if claim == "entry":
        pointer.write_text(f"gitdir: {entry}\n")
    elif claim == "repository":
        pointer.write_text(f"gitdir: {main / '.git'}\n")
    elif claim == "own entry":
        own = tmp_path / "own" / "worktrees" / "feat"
        own.mkdir(parents=True)
        (own / "gitdir").write_text(f"{pointer}\n")
        (own / "commondir").write_text(f"{main / '.git'}\n")
        pointer.write_text(f"gitdir: {own}\n")
    elif claim == "copy":
        shutil.copy(tree / ".git", pointer)
    elif claim == "nothing":
        pointer.write_text("")
    elif claim == "link":
        pointer.symlink_to(tree / ".git")
    elif claim == "text":
        pointer.write_bytes(b"gitdir: \0\xff\n" * 2000)
    else:
        (entry / "gitdir").unlink()
        pointer = tree / ".git"
    assert worktree_at(pointer.parent) is None
    assert not is_copy(pointer.parent)


def test_a_whole_forged_repository_hides_nothing_of_another(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    src = main / "src"
    entry = main / "forged" / "worktrees" / "x"
    entry.mkdir(parents=True)
    src.mkdir()
    (src / ".git").write_text(f"gitdir: {entry}\n")
    (entry / "gitdir").write_text(f"{src / '.git'}\n")
    (entry / "commondir").write_text("../..\n")
    assert worktree_at(src) == Worktree(src, main / "forged")
    assert not is_copy(src)


def test_the_copies_of_a_tree_are_listed(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    first, second = worktree(main, "b"), worktree(main, ".claude/worktrees/a")
    worktree(main, "../beside")
    inner = worktree(first, "inner")
    shutil.rmtree(worktree(main, "removed"))
    (main / ".git/worktrees/stray").mkdir()
    assert set(copies_in(main)) == {first, second, inner}
    assert list(copies_in(first)) == [inner]
    assert list(copies_in(inner)) == []
    assert list(copies_in(tmp_path)) == []


def test_the_witnesses_are_the_files_of_both_sides(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    assert list(witnesses(tree)) == [tree / ".git", main / ".git" / "worktrees" / "feat" / "gitdir"]
    assert list(witnesses(main / "nowhere")) == [main / "nowhere" / ".git"]


ENDED = 2**22 + 1
"""More than the greatest process id of Linux."""


def locked(tree: Path, reason: str) -> Path:
    git(tree, "worktree", "lock", "--reason", reason, str(tree))
    return tree


def test_the_worktree_of_a_sub_agent_is_locked_by_a_process_that_lives(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    mine = f"pid {os.getpid()}"
    first = locked(worktree(main, ".claude/worktrees/agent-1"), f"claude agent agent-1 ({mine} start 12)")
    second = locked(worktree(main, "../agent-2"), f"claude agent agent-2 ({mine})")
    locked(worktree(main, "../session"), f"claude session feat ({mine})")
    locked(worktree(main, "../ended"), f"claude agent agent-3 (pid {ENDED})")
    locked(worktree(main, "../by-hand"), "on a stick")
    own = worktree(main, "../own")
    assert worktrees_of_agents(main) == (first, second)
    assert worktrees_of_agents(own) == (first, second)
    assert worktrees_of_agents(first) == (second,)
    (main / "packages/web").mkdir(parents=True)
    assert worktrees_of_agents(main / "packages/web") == (first, second), "a project within the repository"


def test_a_folder_that_only_claims_to_be_a_sub_agents_worktree_is_none(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = locked(worktree(main), f"claude agent agent-1 (pid {os.getpid()})")
    entry = main / ".git/worktrees" / tree.name
    (entry / "gitdir").write_text(f"{tmp_path / 'elsewhere'}/.git\n")
    assert worktrees_of_agents(main) == ()
    assert worktrees_of_agents(tmp_path) == ()
