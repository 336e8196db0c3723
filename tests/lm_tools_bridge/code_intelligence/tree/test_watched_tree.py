"""A look at a project's files is used again only where the kernel's events prove that it still holds."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tree import watched_tree
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan
from lm_tools_bridge.code_intelligence.tree.watched_tree import LOOK_AGAIN_S, WatchedTree
from support.projects.git_repositories import repository, worktree
from workspace_server.files.folder_events import Events, FolderEvents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
PYTHON = Relevance(frozenset({".py"}), frozenset({"pyproject.toml"}))


class Watched:
    """A watched tree that was looked at once; counts the looks at everything."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, **members: Any) -> None:
        self.root = root
        self.looks = 0
        self.held: set[str] = set()
        self.now = 0.0
        self.tree = WatchedTree([root], clock=lambda: self.now, **members)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.looks += 1
            self.held = set(named["held"].files) if "held" in named else set()
            return scan(*arguments, **named)

        monkeypatch.setattr(watched_tree, "scan", counted)
        self.tree.look(PYTHON)

    def is_unchanged(self) -> bool:
        return self.tree.is_unchanged(PYTHON)

    def check(self) -> None:
        """The next look is what a look at everything finds."""
        assert not self.is_unchanged()
        found, whole = self.tree.look(PYTHON), scan([self.root], PYTHON)
        assert found.files == whole.files
        assert found.elsewhere == whole.elsewhere
        assert found.links == whole.links
        assert self.is_unchanged()

    def check_elsewhere(self) -> None:
        """The next look is what a look at everything finds."""
        found, whole = self.tree.look(PYTHON), scan([self.root], PYTHON)
        assert (found.files, found.elsewhere) == (whole.files, whole.elsewhere)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    root = tmp_path / "proj"
    for name in ("a.py", "b.py", "pkg/deep/c.py", "node_modules/x.py", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")
    made = Watched(root, monkeypatch)
    yield made
    made.tree.close()


def test_an_unchanged_tree_is_not_looked_at_again(watched: Watched) -> None:
    (watched.root / "notes.txt").write_text("not relevant")
    (watched.root / "node_modules/y.py").write_text("not entered")
    (watched.root / "a.py").read_text()
    assert all(watched.is_unchanged() for _ in range(3))
    assert watched.looks == 1


def same_size_in_the_same_tick(root: Path) -> None:
    before = (root / "a.py").stat()
    (root / "a.py").write_text("x = 2\n")
    os.utime(root / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))


def rename(root: Path) -> None:
    (root / "a.py").rename(root / "pkg/deep/new.py")


def delete_and_create(root: Path) -> None:
    (root / "b.py").unlink()
    (root / "new.py").write_text("")


def link(root: Path) -> None:
    (root / "pkg/near.py").symlink_to(root / "node_modules/x.py")
    (root / "pkg/folder.py").symlink_to(root / "pkg/deep")


@pytest.mark.parametrize("edit", [same_size_in_the_same_tick, rename, delete_and_create])
def test_changed_files_are_looked_at_alone(watched: Watched, edit: Callable[[Path], None]) -> None:
    edit(watched.root)
    watched.check()
    assert watched.looks == 1


def test_new_links_need_a_look_at_everything_for_where_they_lead(watched: Watched) -> None:
    link(watched.root)
    watched.check()
    assert watched.looks == 2


def new_folder(root: Path) -> None:
    (root / "one/two").mkdir(parents=True)
    (root / "one/two/new.py").write_text("")


def moved_folder(root: Path) -> None:
    (root / "pkg").rename(root / "moved")


def build_tree(root: Path) -> None:
    (root / "pkg/deep/CACHEDIR.TAG").write_text("")
    (root / "pkg/deep/pyproject.toml").write_text("")


def replaced_root(root: Path) -> None:
    root.rename(root.with_name("old"))
    shutil.copytree(root.with_name("old"), root)


def replaced_folder(root: Path) -> None:
    shutil.copytree(root / "pkg", root / "other")
    (root / "other/deep/c.py").write_text("other")
    (root / "pkg").rename(root / "node_modules/pkg")
    (root / "other").rename(root / "pkg")


def folder_in_place_of_a_file(root: Path) -> None:
    (root / "a.py").unlink()
    (root / "a.py").mkdir()
    (root / "a.py/in.py").write_text("")


def swapped_folders(root: Path) -> None:
    new_folder(root)
    (root / "one/two/c.py").write_text("one")
    (root / "pkg/deep").rename(root / "pkg/gone")
    (root / "one/two").rename(root / "pkg/deep")
    (root / "pkg/gone").rename(root / "one/two")


def changed_with_a_folder(root: Path) -> None:
    new_folder(root)
    (root / "pkg/deep/c.py").write_text("changed")
    (root / "b.py").unlink()
    (root / "b.py").symlink_to(root / "a.py")


FOLDERS = [
    *(new_folder, moved_folder, build_tree, replaced_root, replaced_folder),
    *(folder_in_place_of_a_file, swapped_folders, changed_with_a_folder),
]


@pytest.mark.parametrize("edit", FOLDERS)
def test_after_changes_of_folders_all_are_listed_again(
    watched: Watched, edit: Callable[[Path], None]
) -> None:
    edit(watched.root)
    watched.check()
    assert watched.looks == 2
    (watched.root / "pkg").mkdir(exist_ok=True)
    (watched.root / "pkg/last.py").write_text("")
    watched.check()


def test_files_that_did_not_change_are_not_asked_for_their_state(watched: Watched) -> None:
    changed_with_a_folder(watched.root)
    watched.check()
    assert watched.held == {str(watched.root / "a.py")}


def test_of_what_changes_while_folders_are_listed_the_next_look_tells(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_folder(watched.root)
    begin = FolderEvents.begin

    def begin_and_edit(events: FolderEvents) -> Events:
        found = begin(events)
        (watched.root / "a.py").write_text("meanwhile")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FolderEvents, "begin", begin_and_edit)
        watched.tree.look(PYTHON)
    watched.check()


def test_a_folder_in_a_build_tree_is_no_change(watched: Watched) -> None:
    build_tree(watched.root)
    watched.check()
    (watched.root / "pkg/deep/objects").mkdir()
    assert watched.is_unchanged()


def test_files_in_new_folders_are_watched_from_then_on(watched: Watched) -> None:
    new_folder(watched.root)
    watched.check()
    (watched.root / "one/two/new.py").write_text("changed")
    watched.check()
    assert watched.looks == 2


def test_sources_of_a_build_tree_are_still_left_out(watched: Watched) -> None:
    build_tree(watched.root)
    watched.check()
    (watched.root / "pkg/deep/made.py").write_text("")
    assert watched.is_unchanged()
    (watched.root / "pkg/deep/pyproject.toml").write_text("changed")
    watched.check()


def test_a_change_behind_a_link_is_seen_though_no_event_tells(watched: Watched) -> None:
    link(watched.root)
    watched.check()
    (watched.root / "node_modules/x.py").unlink()
    watched.check()
    (watched.root / "node_modules/x.py").write_text("again")
    watched.check()


def test_a_change_by_another_name_is_seen_though_no_event_tells(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text("1")
    (watched.root / "near.py").hardlink_to(tmp_path / "far.py")
    watched.check()
    (tmp_path / "far.py").write_text("changed")
    watched.check()


def test_a_second_name_in_the_project_changes_the_first_one_too(watched: Watched) -> None:
    (watched.root / "one.py").write_text("1")
    watched.tree.look(PYTHON)
    os.link(watched.root / "one.py", watched.root / "two.py")
    watched.tree.look(PYTHON)
    (watched.root / "two.py").write_text("other")
    watched.check_elsewhere()


def test_a_disk_that_is_mounted_from_the_network_ends_the_reliance_on_events(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_tree, "are_local", lambda folders: False)
    watched.now += LOOK_AGAIN_S
    watched.tree.look(PYTHON)
    assert not watched.is_unchanged()
    watched.tree.look(PYTHON)
    assert watched.looks == 3


def test_what_no_event_tells_is_seen_after_a_minute(watched: Watched) -> None:
    watched.now += LOOK_AGAIN_S
    assert not watched.is_unchanged()
    watched.tree.look(PYTHON)
    assert watched.looks == 2


def test_other_files_that_begin_to_matter_are_looked_at(watched: Watched) -> None:
    more = PYTHON | Relevance(frozenset({".txt"}))
    assert not watched.tree.is_unchanged(more)
    assert str(watched.root / "notes.txt") in watched.tree.look(more).files


def test_after_an_overflow_everything_is_looked_at(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    (watched.root / "a.py").write_text("changed")
    with monkeypatch.context() as lost:
        lost.setattr(FolderEvents, "read", lambda self: Events(is_lost=True))
        assert not watched.is_unchanged()
    watched.check()
    assert watched.looks == 2


@pytest.mark.parametrize("lacks", ["queue", "watch"])
def test_without_events_everything_is_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.setattr(FolderEvents, "watch", lambda self, folder: False)
    (tmp_path / "a.py").write_text("")
    watched = Watched(tmp_path, monkeypatch, **({"open_events": lambda: None} if lacks == "queue" else {}))
    for looks in (2, 3):
        assert not watched.is_unchanged()
        watched.tree.look(PYTHON)
        assert watched.looks == looks
    watched.tree.close()


def test_git_worktrees_inside_the_tree_are_left_out_when_they_come_and_when_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = repository(tmp_path / "main")
    watched = Watched(main, monkeypatch)
    tree = worktree(main)
    (tree / "inner").mkdir()
    assert set(watched.tree.look(PYTHON).files) == {str(main / "mod.py")}
    (tree / "mod.py").write_text("changed\n")
    (tree / "inner" / "new.py").write_text("")
    assert watched.is_unchanged()
    (tree / ".git").unlink()
    files = {main / "mod.py", tree / "mod.py", tree / "inner" / "new.py"}
    assert set(watched.tree.look(PYTHON).files) == {str(path) for path in files}
    shutil.rmtree(tree)
    watched.check()
    assert set(watched.tree.look(PYTHON).files) == {str(main / "mod.py")}
