"""Lists that are kept: never stale, and read again only where something changed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lm_tools_bridge.machine.disks import are_local
from support.examples import examples
from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files import directory, entries, listing, read_ahead
from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.listing import Listing

pytestmark = pytest.mark.skipif(not are_local([Path("/tmp")]), reason="the disk keeps no exact times")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return write_tree(
        tmp_path / "proj",
        {
            "a.txt": "",
            "src/b.txt": "",
            "src/deep/c.txt": "",
            "src/deep/.gitignore": "*.log\n",
            "lib/d.txt": "",
        },
    )


def shown(kept: Listing, root: Path) -> list[str]:
    workspace = workspace_of(root)
    tree = Tree.open(workspace, workspace.folders[0], {"HOME": str(root.parent / "home")})
    return [segment.base + name for segment in kept.segments(tree, lambda: False) for name in segment.names]


def let_the_clock_tick(root: Path) -> None:
    """Return when the times of new changes differ from those so far, which have the resolution of a tick."""
    probe = root.parent / "probe"
    probe.write_text("")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All times count as settled; tests wait for the next tick before each change."""
    monkeypatch.setattr(directory, "SETTLED_NS", -(10**18))


@pytest.fixture
def reads(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The directories that were read."""
    bases: list[str] = []

    def noted(path: str) -> entries.Entries:
        bases.append(f"{Path(path).relative_to(root)}/".removeprefix("./"))
        return entries.read_entries(path)

    monkeypatch.setattr(read_ahead, "read_entries", noted)
    yield bases


def replaced_by_directory(root: Path) -> None:
    (root / "lib" / "d.txt").unlink()
    write_tree(root, {"lib/d.txt/inner": ""})


def with_its_old_time(root: Path) -> None:
    """What copies of whole trees do: they give a directory the time it had."""
    before = (root / "lib").stat()
    (root / "lib" / "new.txt").write_text("")
    os.utime(root / "lib", ns=(before.st_atime_ns, before.st_mtime_ns))


def same_size(root: Path) -> None:
    path = root / "src" / "deep" / ".gitignore"
    before = path.stat()
    path.write_text("*.txt\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "new file": lambda root: (root / "src" / "deep" / "new.txt").write_text(""),
    "removed file": lambda root: (root / "src" / "b.txt").unlink(),
    "renamed file": lambda root: (root / "a.txt").rename(root / "z.txt"),
    "moved file": lambda root: (root / "a.txt").rename(root / "lib" / "a.txt"),
    "renamed directory": lambda root: (root / "src").rename(root / "moved"),
    "moved directory": lambda root: (root / "src" / "deep").rename(root / "deep"),
    "file replaced by a directory": replaced_by_directory,
    "new directory with files": lambda root: write_tree(root, {"new/x/y.txt": "", "new/z": ""}),
    "old time restored": with_its_old_time,
    "new ignore file": lambda root: (root / "src" / ".gitignore").write_text("*.txt\n"),
    "changed ignore file of the same size and time": same_size,
    "removed ignore file": lambda root: (root / "src" / "deep" / ".gitignore").unlink(),
    "new ignore file far above": lambda root: (root / ".ignore").write_text("c.txt\n"),
    "new exclude setting": lambda root: write_tree(
        root, {".vscode/settings.json": '{"files.exclude": {"lib": true}}'}
    ),
    "new global ignore file": lambda root: write_tree(root.parent / "home", {".config/git/ignore": "b.txt\n"}),
    "new link to a file": lambda root: (root / "link").symlink_to("a.txt"),
    "new link to a directory": lambda root: (root / "link").symlink_to("src"),
}  # fmt: skip


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_very_next_list(root: Path, change: str) -> None:
    kept = Listing()
    before = shown(kept, root)
    assert shown(kept, root) == before
    let_the_clock_tick(root)
    CHANGES[change](root)
    after = shown(kept, root)
    assert after == shown(Listing(), root)
    assert after != before


@pytest.mark.usefixtures("settled")
def test_an_unchanged_tree_is_not_read_again(root: Path, reads: list[str]) -> None:
    kept = Listing()
    first = shown(kept, root)
    assert sorted(reads) == ["", "lib/", "src/", "src/deep/"]
    assert shown(kept, root) == first
    assert len(reads) == 4


@pytest.mark.usefixtures("settled")
def test_only_the_changed_directory_is_read_again(root: Path, reads: list[str]) -> None:
    kept = Listing()
    shown(kept, root)
    let_the_clock_tick(root)
    (root / "src" / "new").write_text("")
    del reads[:]
    assert "src/new" in shown(kept, root)
    assert reads == ["src/"]


@pytest.mark.usefixtures("settled")
def test_a_changed_ignore_file_is_applied_below_it_only(root: Path, reads: list[str]) -> None:
    write_tree(root, {"src/.gitignore": "nothing\n"})
    kept = Listing()
    shown(kept, root)
    let_the_clock_tick(root)
    write_tree(root, {"src/.gitignore": "c.txt\n"})
    del reads[:]
    assert "src/deep/c.txt" not in shown(kept, root)
    assert sorted(reads) == ["src/", "src/deep/"]


def test_a_directory_that_has_just_changed_is_read_each_time(root: Path, reads: list[str]) -> None:
    """Another change in the same tick of the clock would leave its time as it is."""
    kept = Listing()
    shown(kept, root)
    del reads[:]
    shown(kept, root)
    assert sorted(reads) == ["", "lib/", "src/", "src/deep/"]


@pytest.mark.usefixtures("settled")
def test_what_a_link_leads_to_is_looked_at_each_time(root: Path) -> None:
    (root / "link").symlink_to("src/later")
    kept = Listing()
    assert "link" not in shown(kept, root)
    let_the_clock_tick(root)
    (root / "src" / "later").write_text("")
    assert "link" in shown(kept, root)
    (root / "src" / "later").unlink()
    write_tree(root, {"src/later/x": ""})
    assert "link/x" in shown(kept, root)
    let_the_clock_tick(root)
    write_tree(root, {"src/later/y": ""})
    assert "link/y" in shown(kept, root)


@pytest.mark.usefixtures("settled")
def test_on_other_disks_nothing_is_kept(
    root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "are_local", lambda folders: False)
    kept = Listing()
    assert shown(kept, root) == shown(kept, root)
    assert len(reads) == 8


@pytest.mark.usefixtures("settled")
def test_a_list_that_was_stopped_is_not_kept(root: Path) -> None:
    workspace = workspace_of(root)
    tree = Tree.open(workspace, workspace.folders[0], {})
    kept = Listing()
    stopped = False
    segments = kept.segments(tree, lambda: stopped)
    next(segments)
    stopped = True
    list(segments)
    assert shown(kept, root) == shown(Listing(), root)


def test_a_list_of_too_many_files_is_complete_but_not_kept(
    root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "SETTLED_NS", -(10**18))
    monkeypatch.setattr(listing, "MAX_KEPT_FILES", 2)
    kept = Listing()
    assert shown(kept, root) == shown(kept, root) == shown(Listing(), root)
    assert len(reads) == 12


NAME = st.sampled_from(["a", "b", "d", "e.x", ".gitignore"])
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)
STEP = st.tuples(st.sampled_from(["write", "remove", "move", "link", "ignore"]), PATH, PATH)


def apply(root: Path, step: tuple[str, str, str]) -> None:
    """One change; one that the file system refuses changes nothing."""
    kind, first, second = step
    path = root / first
    try:
        if kind == "remove":
            path.unlink()
        elif kind == "move":
            path.rename(root / second)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                path.symlink_to(root / second)
            else:
                path.write_text(second.rsplit("/", 1)[-1] if kind == "ignore" else "")
    except OSError:
        pass


@examples(60, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.lists(STEP, min_size=1, max_size=4), max_size=5))
def test_after_any_changes_a_kept_list_is_like_a_new_one(
    steps: list[list[tuple[str, str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "SETTLED_NS", -(10**18))
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "proj", {"a/a": "", "d/d/a": ""})
        kept = Listing()
        shown(kept, root)
        for changes in steps:
            let_the_clock_tick(root)
            for change in changes:
                apply(root, change)
            assert shown(kept, root) == shown(Listing(), root)
