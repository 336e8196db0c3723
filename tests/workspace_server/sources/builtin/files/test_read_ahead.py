"""A second process that reads directories of a large tree."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from support.examples import examples
from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files import directory, read_ahead
from workspace_server.sources.builtin.files.entries import read_below, read_entries
from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.listing import Listing
from workspace_server.sources.builtin.files.segments import Segment

FILES = {f"{a}/{b}/{c}.txt": "" for a in "abcd" for b in "efgh" for c in "xyz"}
RULES = {"b/.gitignore": "g\n", ".ignore": "h*\n!d/h\n", "a/.git/x": "", "c/e/.rgignore": "y.txt\n"}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Those that were started, from the second directory on; all have ended when the test has."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **named))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(read_ahead, "_processors", lambda: 2)
    monkeypatch.setattr(read_ahead, "AFTER", 2)
    yield started
    assert all(process.returncode is not None for process in started)


def segments(root: Path, kept: Listing | None = None) -> Iterator[Segment]:
    workspace = workspace_of(root)
    tree = Tree.open(workspace, workspace.folders[0], {})
    return (kept or Listing()).segments(tree, lambda: False)


def alone(root: Path) -> list[Segment]:
    """The list as one process makes it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(read_ahead, "_processors", lambda: 1)
        return list(segments(root))


def test_two_processes_list_what_one_lists(tmp_path: Path, processes: Sequence[object]) -> None:
    write_tree(tmp_path, {**FILES, **RULES, "new\nline/é/\udcff": ""})
    (tmp_path / "a" / "link").symlink_to("../d")
    assert list(segments(tmp_path)) == alone(tmp_path)
    assert len(processes) == 1


def test_a_small_tree_and_a_single_processor_need_no_process(
    tmp_path: Path, processes: Sequence[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, FILES)
    alone(tmp_path)
    monkeypatch.setattr(read_ahead, "AFTER", 300)
    list(segments(tmp_path))
    assert not processes


def test_a_changed_tree_is_read_again_by_one_process(
    tmp_path: Path, processes: Sequence[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "SETTLED_NS", -(10**18))
    write_tree(tmp_path, FILES)
    kept = Listing()
    before = list(segments(tmp_path, kept))
    write_tree(tmp_path, {"a/new/file": ""})
    assert len(list(segments(tmp_path, kept))) == len(before) + 1
    assert len(processes) == 1


def test_a_walk_that_is_given_up_ends_the_process(
    tmp_path: Path, processes: Sequence[subprocess.Popen[bytes]]
) -> None:
    write_tree(tmp_path, FILES)
    walk = segments(tmp_path)
    for _ in range(3):
        next(walk)
    assert processes[0].poll() is None
    walk.close()
    assert processes[0].returncode is not None


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import os; os.write(1, bytes(7) + b'\\x08' + b'x' * 8)",
        "import os; os.write(1, b'x')",
    ],
)
def test_a_process_that_fails_is_not_missed(
    tmp_path: Path, processes: Sequence[object], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(f"import sys; sys.stdin.buffer.read(1); {code}")
    root = write_tree(tmp_path / "proj", FILES)
    monkeypatch.setattr(read_ahead, "_PROGRAM", tmp_path / "program.py")
    assert list(segments(root)) == alone(root)
    assert len(processes) == 1


def test_only_what_no_rule_can_hide_is_read_ahead(tmp_path: Path) -> None:
    write_tree(tmp_path, {**FILES, **RULES})
    (tmp_path / "link").symlink_to("a")
    read = [
        os.path.relpath(path, tmp_path / "a") for path, _ in read_below(f"{tmp_path}/a", ["/[gh](?=/)"], 99)
    ]
    assert read == [".", "e", "f"]
    assert len(read_below(f"{tmp_path}/a", [], 3)) == 3
    assert len(read_below(f"{tmp_path}/a", None, 99)) == 1
    assert len(read_below(str(tmp_path), [], 99)) == 1
    assert read_below(f"{tmp_path}/none", [], 99) == [(f"{tmp_path}/none", None)]


def test_a_directory_that_cannot_be_read_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_entries(str(tmp_path / "file")) is read_entries(str(tmp_path / "none")) is None


NAME = st.sampled_from(["a", "b", "ab", "a.x", "d", "é"])
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
RULE = st.sampled_from(["a", "*.x", "/d", "d/a", "!a", "**/b/*", "a/", "[ab]"])


@examples(40, suppress_health_check=list(HealthCheck))
@given(
    paths=st.lists(PATH, min_size=3, max_size=15),
    rules=st.dictionaries(PATH, st.lists(RULE, max_size=3), max_size=3),
    links=st.lists(st.tuples(PATH, PATH), max_size=2),
)
def test_two_processes_list_any_tree_like_one(
    paths: list[str],
    rules: dict[str, list[str]],
    links: list[tuple[str, str]],
    processes: Sequence[object],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in (*(f"{path}/file" for path in paths), *(f"{path}/.gitignore" for path in rules)):
            write_tree(Path(folder), {path: "\n".join(rules.get(path.removesuffix("/.gitignore"), []))})
        for path, target in links:
            with suppress(OSError):
                (Path(folder) / path).symlink_to(Path(folder) / target)
        assert list(segments(Path(folder))) == alone(Path(folder))
