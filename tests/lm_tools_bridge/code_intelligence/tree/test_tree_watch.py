"""What changed on disk between two looks, as each server is told of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot, difference
from lm_tools_bridge.code_intelligence.tree.tree_scan import scan
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch, Watcher
from lm_tools_bridge.code_intelligence.tree.watched_tree import WatchedTree
from workspace_server.files import single_flight

PYTHON = Relevance(frozenset({".py"}), frozenset({"pyproject.toml"}))
LATER_NS = 10**9


def settled(folders: Sequence[Path], relevance: Relevance) -> Snapshot:
    """A look that says that it took place a second after it did: nothing changed just before."""
    return scan(folders, relevance, wall_ns=lambda: time.time_ns() + LATER_NS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("a.py", "b.py", "pkg/c.py", "pkg/deep/d.py", "pkg/readme.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return tmp_path


def names(paths: Sequence[str], project: Path) -> list[str]:
    return [os.path.relpath(path, project) for path in paths]


async def change(watcher: Watcher, action: Callable[[], object]) -> Changes:
    """What the watcher sees after this action."""
    watcher.accept(await watcher.look())
    action()
    look = await watcher.look()
    watcher.accept(look)
    return look.changes


@pytest.fixture(params=["looks", "events"])
async def watching(request: pytest.FixtureRequest, project: Path) -> AsyncIterator[Watcher]:
    """By a look at everything each time, and by the events of the kernel."""
    tree = WatchedTree([project], wall_ns=lambda: time.time_ns() + LATER_NS)
    watch = TreeWatch([project], settled) if request.param == "looks" else TreeWatch([project], tree=tree)
    watcher = watch.watcher(PYTHON)
    yield watcher
    await watcher.close()


async def test_created_changed_deleted_and_renamed_files_are_told(project: Path, watching: Watcher) -> None:
    def edit() -> None:
        (project / "new.py").write_text("")
        (project / "a.py").write_text("x = 22\n")
        (project / "b.py").unlink()
        (project / "pkg/c.py").rename(project / "pkg/e.py")
        (project / "pkg/readme.md").write_text("not relevant")

    changes = await change(watching, edit)
    assert names(changes.created, project) == ["new.py", "pkg/e.py"]
    assert names(changes.changed, project) == ["a.py"]
    assert names(changes.deleted, project) == ["b.py", "pkg/c.py"]


async def test_nothing_is_told_twice(project: Path, watching: Watcher) -> None:
    await change(watching, lambda: (project / "a.py").write_text("y"))
    assert not (await watching.look()).changes


async def test_a_look_that_was_not_accepted_is_told_again(project: Path, watching: Watcher) -> None:
    watching.accept(await watching.look())
    (project / "a.py").unlink()
    assert names((await watching.look()).changes.deleted, project) == ["a.py"]
    assert names((await watching.look()).changes.deleted, project) == ["a.py"]


def keep_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_text("x = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_with_same_size_and_time(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_text("x = 3\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("edit", [keep_size_and_time, replace_with_same_size_and_time])
async def test_an_edit_that_keeps_size_and_time_is_told(
    project: Path, edit: Callable[[Path], None], watching: Watcher
) -> None:
    changes = await change(watching, lambda: edit(project / "a.py"))
    assert names(changes.changed, project) == ["a.py"]


def test_a_file_that_had_just_changed_at_the_look_is_told_again() -> None:
    state = (5_000_000_000, 0, 1, 1)
    just_before = Snapshot({"/p/a.py": state}, PYTHON, 5_050_000_000)
    after = Snapshot({"/p/a.py": state}, PYTHON, 6_000_000_000)
    assert difference(just_before, after, PYTHON).changed == ("/p/a.py",)
    assert not difference(after, after, PYTHON)


async def test_a_file_that_had_just_changed_is_not_told_again_if_its_content_is_the_same(
    project: Path,
) -> None:
    watching = TreeWatch([project]).watcher(PYTHON)
    watching.accept(await watching.look())
    (project / "a.py").write_text("new")
    for expected in (1, 0, 0):
        look = await watching.look()
        watching.accept(look)
        assert len(look.changes) == expected


def test_a_file_from_the_future_is_not_told_for_ever() -> None:
    future = Snapshot({"/p/a.py": (10**18, 0, 1, 1)}, PYTHON, 5_000_000_000)
    assert not difference(future, future, PYTHON)


async def test_dependencies_caches_and_build_trees_are_not_entered(project: Path, watching: Watcher) -> None:
    def edit() -> None:
        for folder in ("node_modules/x", ".venv/lib", ".git", "target/debug", "env/lib", "out"):
            (project / folder).mkdir(parents=True)
            (project / folder / "m.py").write_text("")
        (project / "target/CACHEDIR.TAG").write_text("")
        (project / "env/pyvenv.cfg").write_text("")
        (project / "out/build.ninja").write_text("")
        (project / "out/pyproject.toml").write_text("")
        (project / "build").mkdir()
        (project / "build/source.py").write_text("")

    created = (await change(watching, edit)).created
    assert names(created, project) == ["build/source.py", "out/pyproject.toml"]


async def test_links_are_never_followed_out(
    project: Path, tmp_path_factory: pytest.TempPathFactory, watching: Watcher
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "far.py").write_text("")
    (project / "folder.py").symlink_to(outside)
    (project / "far.py").symlink_to(outside / "far.py")
    (project / "near.py").symlink_to(project / "a.py")
    (project / "loop").symlink_to(project)
    (project / "dangling.py").symlink_to(project / "nothing.py")

    def edit() -> None:
        (outside / "far.py").write_text("changed")
        (project / "a.py").write_text("changed")

    changes = await change(watching, edit)
    assert changes == Changes(changed=(str(project / "a.py"), str(project / "near.py")))


async def test_links_that_lead_out_are_named(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "far.py").write_text("")
    ways = {"far.py": "far.py", "folder": ".", "deep/far.txt": "far.py", "gone.py": "none"}
    (project / "deep").mkdir()
    for name, target in ways.items():
        (project / name).symlink_to(outside / target)
    (project / "near.py").symlink_to("a.py")
    watch = TreeWatch([project])
    assert watch.links_out() == ()
    await watch.watcher(PYTHON).look()
    assert set(watch.links_out()) == {str(project / name) for name in ways}


async def test_beyond_the_limit_nothing_is_taken_for_deleted(project: Path) -> None:
    limits = [100]
    watching = TreeWatch(
        [project], lambda folders, relevance: scan(folders, relevance, limits[0], wall_ns=lambda: LATER_NS)
    ).watcher(PYTHON)
    watching.accept(await watching.look())
    limits[0] = 4  # the folder itself, and not `pkg`
    (project / "b.py").unlink()
    (project / "pkg/deep/d.py").unlink()
    changes = (await watching.look()).changes
    assert changes.is_cut
    assert names(changes.deleted, project) == ["b.py", "pkg/deep/d.py"]


async def test_a_folder_that_cannot_be_read_has_not_lost_its_files(project: Path, watching: Watcher) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    changes = await change(watching, lambda: (project / "pkg").chmod(0))
    (project / "pkg").chmod(0o755)
    assert not changes


async def test_a_folder_that_went_away_has_lost_its_files(
    project: Path, watching: Watcher, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changes = await change(
        watching, lambda: (project / "pkg").rename(tmp_path_factory.mktemp("gone") / "pkg")
    )
    assert names(changes.deleted, project) == ["pkg/c.py", "pkg/deep/d.py"]


async def test_a_git_checkout_of_2000_files_is_one_batch(project: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(("git", *who, *words), cwd=project, check=True, capture_output=True)

    for number in range(2000):
        (project / f"m{number}.py").write_text("one = 1\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "two")
    for number in range(2000):
        (project / f"m{number}.py").write_text("two = 22\n")
    git("commit", "-qam", "two")
    watches = [TreeWatch([project], settled), TreeWatch([project])]
    watching = [watch.watcher(PYTHON) for watch in watches]
    for one in watching:
        one.accept(await one.look())
    git("checkout", "-q", "main")
    for one in watching:
        changes = (await one.look()).changes
        assert len(changes.changed) == len(changes) == 2000
        await one.close()


async def test_callers_at_the_same_time_share_a_look(project: Path) -> None:
    began, go_on, count = threading.Event(), threading.Event(), 0

    def slow(folders: Sequence[Path], relevance: Relevance) -> Snapshot:
        nonlocal count
        count += 1
        began.set()
        assert go_on.wait(10)
        return scan(folders, relevance)

    watch = TreeWatch([project], slow)
    first = asyncio.create_task(watch.snapshot())
    await asyncio.to_thread(began.wait, 10)
    others = [asyncio.create_task(watch.snapshot()) for _ in range(20)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *others)
    await watch.close()
    assert count == 2


async def test_a_look_that_outlasts_the_end_gives_its_watches_back(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class SlowTree(WatchedTree):
        def look(self, relevance: Relevance) -> Snapshot:
            found = super().look(relevance)
            began.set()
            assert go_on.wait(10)
            return found

        def close(self) -> None:
            super().close()
            closed.set()

    monkeypatch.setattr(single_flight, "CLOSE_S", 0.01)
    watch = TreeWatch([project], tree=SlowTree([project]))
    watcher = watch.watcher(PYTHON)
    looking = asyncio.create_task(watcher.look())
    await asyncio.to_thread(began.wait, 10)
    await watcher.close()
    assert not closed.is_set()
    go_on.set()
    await looking
    assert closed.is_set()


async def test_each_server_is_told_of_its_own_files_only(project: Path) -> None:
    watch = TreeWatch([project], settled)
    python, markdown = watch.watcher(PYTHON), watch.watcher(Relevance(frozenset({".md"})))
    python.accept(await python.look())
    markdown.accept(await markdown.look())
    (project / "a.py").write_text("new")
    (project / "pkg/readme.md").write_text("new")
    assert names((await python.look()).changes.changed, project) == ["a.py"]
    assert names((await markdown.look()).changes.changed, project) == ["pkg/readme.md"]


async def test_files_that_begin_to_matter_are_not_told_as_created(project: Path, watching: Watcher) -> None:
    watching.accept(await watching.look())
    watching.include(Relevance(frozenset({".md"})))
    changes = await change(watching, lambda: None)
    assert not changes
    changes = await change(watching, lambda: (project / "pkg/readme.md").write_text("new"))
    assert names(changes.changed, project) == ["pkg/readme.md"]


def test_folders_inside_others_are_looked_at_once(project: Path) -> None:
    listed: list[str] = []
    scan([project / "pkg", project], PYTHON, before_listing=listed.append)
    assert sorted(names(listed, project)) == [".", "pkg", "pkg/deep"]


async def test_a_change_is_told_under_all_names_that_links_to_folders_give(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared/m.py").write_text("1")
    (project / "app").mkdir()
    (project / "app/lib").symlink_to("../shared")
    (project / "one.py").symlink_to("shared/m.py")
    watching = TreeWatch([project]).watcher(PYTHON)
    before = await watching.look()
    watching.accept(before)
    (project / "shared/m.py").write_text("new")
    (project / "shared/n.py").write_text("")
    after = await watching.look()
    told = after.changes.with_aliases(before.snapshot, after.snapshot)
    assert names(told.changed, project) == ["app/lib/m.py", "one.py", "shared/m.py"]
    assert names(told.created, project) == ["app/lib/n.py", "shared/n.py"]


async def test_files_behind_a_new_or_removed_link_to_a_folder_are_told(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared/m.py").write_text("1")
    watching = TreeWatch([project]).watcher(PYTHON)
    watching.accept(await watching.look())
    (project / "lib").symlink_to("shared")
    look = await watching.look()
    watching.accept(look)
    assert names(look.changes.created, project) == ["lib/m.py"]
    (project / "lib").unlink()
    assert names((await watching.look()).changes.deleted, project) == ["lib/m.py"]


async def test_links_to_folders_above_and_outside_give_no_names(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "loop").symlink_to(".")
    (project / "far").symlink_to(tmp_path_factory.mktemp("outside"))
    assert (await TreeWatch([project]).watcher(PYTHON).look()).snapshot.links == {}
