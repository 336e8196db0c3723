"""Tests the examination of a cwd on a real disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manager.disk import filesystem
from manager.disk.disk_lookups import SLOW_S
from manager.disk.filesystem import FolderExaminer, examine, identify
from manager.disk.folder import CwdProblem, CwdProblemKind, FolderFacts
from manager.routing.matching import KnownRoot, match

NOBODY = 65534


def facts(*paths: str | Path) -> FolderFacts:
    found = examine([str(path) for path in paths])
    assert isinstance(found, FolderFacts), found
    return found


def problem(*paths: str | Path) -> str:
    found = examine([str(path) for path in paths])
    assert isinstance(found, CwdProblem), found
    return found.kind.value


def known(root: str | Path) -> KnownRoot:
    return KnownRoot(os.path.realpath(root), "w", identify(str(root)))


def is_inside(cwd: str | Path, root: str | Path) -> bool:
    return match(facts(cwd).ancestors, [known(root)], home=None, auto_start=False) is not None


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def distinct_names(where: Path) -> bool:
    (where / "probe").mkdir()
    return not (where / "PROBE").exists()


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Permissions do not bind root, so give root's rights up for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder an ordinary user may enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for inner in path.rglob("*"):
        inner.chmod(0o755)
    shutil.rmtree(path)


def test_facts_run_from_the_folder_to_the_root_of_the_tree(tmp_path: Path) -> None:
    cwd = folder(tmp_path / "a" / "b")
    found = facts(cwd)
    assert found.folder == str(cwd)
    assert found.workspace_file is None
    assert [ancestor.path for ancestor in found.ancestors] == [str(cwd), *map(str, cwd.parents)]
    for ancestor in found.ancestors:
        status = os.stat(ancestor.path)
        assert ancestor.identity == (status.st_dev, status.st_ino) == identify(ancestor.path)


def test_root_of_the_tree_is_its_own_only_ancestor() -> None:
    assert [ancestor.path for ancestor in facts("/").ancestors] == ["/"]


@pytest.mark.parametrize(
    "spelling", ["{}", "{}/", "{}///", "/{}", "//{}", "{}/src/..", "{}/./src/../", "{}//src//..//."]
)
def test_spellings_of_one_folder_are_one_folder(tmp_path: Path, spelling: str) -> None:
    root = folder(tmp_path / "mono")
    folder(root / "src")
    assert facts(spelling.format(root)).folder == str(root)


def test_sibling_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    mono, monolith = folder(tmp_path / "mono"), folder(tmp_path / "monolith")
    assert is_inside(mono, mono)
    assert not is_inside(monolith, mono)
    assert not is_inside(mono / ".." / "monolith", mono)


def test_links_lead_to_the_same_workspace_from_either_side(tmp_path: Path) -> None:
    real = folder(tmp_path / "real" / "mono")
    folder(real / "src")
    (tmp_path / "link").symlink_to(real)
    assert facts(tmp_path / "link" / "src").folder == str(real / "src")
    assert is_inside(tmp_path / "link" / "src", real)
    assert is_inside(real / "src", tmp_path / "link")
    unresolved = KnownRoot(str(tmp_path / "link"), "w", identify(str(tmp_path / "link")))
    assert match(facts(real / "src").ancestors, [unresolved], home=None, auto_start=False)


def test_link_out_of_a_workspace_is_outside(tmp_path: Path) -> None:
    ws, other = folder(tmp_path / "ws"), folder(tmp_path / "other")
    folder(other / "x")
    (ws / "out").symlink_to(other / "x")
    assert not is_inside(ws / "out", ws)
    assert facts(ws / "out" / "..").folder == str(other)


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe", "日本語 é".encode(), b"a\nb", b"%2e%2e", b" "])
def test_any_name_the_disk_holds_survives(tmp_path: Path, name: bytes) -> None:
    try:
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
    except OSError as error:
        pytest.skip(f"this file system refuses the name: {error}")
    path = os.path.join(str(tmp_path), os.fsdecode(name))
    assert facts(path).folder == path
    assert os.fsencode(facts(path).ancestors[0].path).endswith(b"/" + name)


def test_letter_case_and_normal_form_are_as_the_disk_has_them(tmp_path: Path) -> None:
    if not distinct_names(tmp_path):
        pytest.skip("this file system does not tell letter case apart")
    composed = unicodedata.normalize("NFC", "é")
    mono, accent = folder(tmp_path / "mono"), folder(tmp_path / composed)
    assert problem(tmp_path / "MONO") == "missing"
    assert problem(tmp_path / unicodedata.normalize("NFD", composed)) == "missing"
    assert not is_inside(folder(tmp_path / "Mono"), mono)
    assert not is_inside(folder(tmp_path / unicodedata.normalize("NFD", composed)), accent)


def test_first_candidate_that_exists_is_meant(tmp_path: Path) -> None:
    plain = folder(tmp_path / "mono")
    assert facts(f"{plain} ", plain).folder == str(plain)
    blank = folder(tmp_path / "mono ")
    assert facts(f"{plain} ", plain).folder == str(blank)
    assert problem(f"{tmp_path}/none ", tmp_path / "none") == "missing"


def test_file_is_refused_with_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    os.mkfifo(tmp_path / "pipe")
    folder(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "link").symlink_to(file)
    refused = CwdProblem(CwdProblemKind.NOT_A_DIRECTORY, str(tmp_path))
    for path in (file, f"{file}/", file / "x" / "y", tmp_path / "pipe", tmp_path / "elsewhere" / "link"):
        assert examine([str(path)]) == refused, path


def test_workspace_file_stands_for_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "all.code-workspace"
    file.write_text("{}")
    found = facts(file)
    assert (found.folder, found.workspace_file) == (str(tmp_path), str(file))
    assert [ancestor.path for ancestor in found.ancestors[:2]] == [str(file), str(tmp_path)]
    assert is_inside(file, file)
    assert is_inside(file, tmp_path)
    marked = match(found.ancestors, [], home=None, auto_start=True)
    assert marked is not None
    assert (marked.root, marked.workspace_id) == (str(tmp_path), None)


def test_folder_named_like_a_workspace_file_is_a_folder(tmp_path: Path) -> None:
    cwd = folder(tmp_path / "x.code-workspace")
    assert facts(cwd).folder == str(cwd)
    assert facts(tmp_path).ancestors[0].marks == set()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda cwd: None, "missing"),
        (lambda cwd: cwd.symlink_to("nowhere"), "missing"),
        (lambda cwd: cwd.symlink_to(cwd), "malformed"),
        (lambda cwd: (cwd.symlink_to("other"), (cwd.parent / "other").symlink_to(cwd)), "malformed"),
    ],
)
def test_place_that_leads_nowhere_is_refused(tmp_path: Path, make: object, expected: str) -> None:
    assert callable(make)
    make(tmp_path / "cwd")
    assert problem(tmp_path / "cwd") == expected
    assert problem(tmp_path / "cwd" / "src") == expected
    assert identify(str(tmp_path / "cwd")) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x\0y", "malformed"),
        ("/\ud800", "malformed"),
        ("/" + "x" * 300, "too_long"),
    ],
)
def test_name_the_disk_cannot_hold_is_refused(path: str, expected: str) -> None:
    assert problem(path) == expected
    assert identify(path) is None


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444])
def test_folder_that_cannot_be_listed_or_entered_is_unreadable(open_folder: Path, mode: int) -> None:
    cwd = folder(open_folder / "cwd")
    if os.geteuid() == 0:
        os.chown(cwd, NOBODY, -1)
    cwd.chmod(mode)
    with as_ordinary_user():
        assert problem(cwd) == "unreadable"
        assert facts(open_folder).folder == str(open_folder)


def test_folder_behind_one_that_cannot_be_entered_is_unreadable(open_folder: Path) -> None:
    cwd = folder(open_folder / "closed" / "cwd")
    if os.geteuid() == 0:
        os.chown(open_folder / "closed", NOBODY, -1)
    (open_folder / "closed").chmod(0o000)
    with as_ordinary_user():
        assert problem(cwd) == "unreadable"
        assert identify(str(cwd)) is None


def test_folder_below_one_that_may_only_be_passed_through_is_fine(open_folder: Path) -> None:
    cwd = folder(open_folder / "passage" / "cwd")
    folder(cwd.parent / ".git")
    if os.geteuid() == 0:
        os.chown(cwd.parent, NOBODY, -1)
    cwd.parent.chmod(0o111)
    with as_ordinary_user():
        found = facts(cwd)
    assert found.folder == str(cwd)
    assert found.ancestors[1].marks == set()


@pytest.mark.parametrize(
    ("name", "kind", "marks"),
    [
        (".lm-tools-bridge", "folder", {"lm-tools-bridge"}),
        (".lm-tools-bridge", "file", set()),
        ("my.code-workspace", "file", {"code-workspace"}),
        ("my.code-workspace", "folder", set()),
        (".vscode", "folder", {"vscode"}),
        (".vscode", "file", set()),
        (".git", "folder", {"vcs"}),
        (".git", "file", {"vcs"}),
        (".git", "link to nowhere", set()),
        (".git", "link to itself", set()),
        (".git", "link to a folder", {"vcs"}),
        (".hg", "folder", {"vcs"}),
        (".svn", "folder", {"vcs"}),
        (".jj", "folder", {"vcs"}),
        (".jj", "file", set()),
        (".github", "folder", set()),
        ("pyproject.toml", "file", set()),
    ],
)
def test_marks_are_read_off_each_folder_on_the_way(
    tmp_path: Path, name: str, kind: str, marks: set[str]
) -> None:
    cwd = folder(tmp_path / "ws" / "src")
    mark = cwd.parent / name
    match kind:
        case "folder":
            mark.mkdir()
        case "file":
            mark.write_text("gitdir: elsewhere\n")
        case "link to nowhere":
            mark.symlink_to("nowhere")
        case "link to itself":
            mark.symlink_to(mark)
        case _:
            mark.symlink_to(tmp_path)
    assert [ancestor.marks for ancestor in facts(cwd).ancestors[:3]] == [set(), marks, set()]


def test_one_folder_can_have_every_mark(tmp_path: Path) -> None:
    for name in (".lm-tools-bridge", ".git", ".hg", ".vscode"):
        folder(tmp_path / name)
    (tmp_path / "a.code-workspace").touch()
    assert facts(tmp_path).ancestors[0].marks == {"lm-tools-bridge", "code-workspace", "vcs", "vscode"}


def test_worktree_inside_a_repository_is_a_workspace_of_its_own(tmp_path: Path) -> None:
    main = folder(tmp_path / "main")
    folder(main / ".git")
    src = folder(main / "worktrees" / "topic" / "src")
    (src.parent / ".git").write_text("gitdir: ../../.git/worktrees/topic\n")
    for roots in ([], [known(main)]):
        found = match(facts(src).ancestors, roots, home=None, auto_start=True)
        assert found is not None
        assert (found.root, found.workspace_id) == (str(src.parent), None)


def test_marked_home_is_no_workspace(tmp_path: Path) -> None:
    home = folder(tmp_path / "home")
    folder(home / ".git")
    (tmp_path / "home-link").symlink_to(home)
    cwd = folder(home / "scratch")
    for spelling in (home, tmp_path / "home-link"):
        assert match(facts(cwd).ancestors, [], home=identify(str(spelling)), auto_start=True) is None
    assert match(facts(cwd).ancestors, [], home=None, auto_start=True) is not None


async def test_examiner_answers_as_the_plain_functions_do(tmp_path: Path) -> None:
    examiner = FolderExaminer()
    assert await examiner.examine([str(tmp_path)]) == facts(tmp_path)
    assert await examiner.examine([f"{tmp_path}/none"]) == CwdProblem(CwdProblemKind.MISSING)
    assert await examiner.identify(str(tmp_path)) == identify(str(tmp_path))


class Hanging:
    """A disk on which paths with `hung` in them hang until `release`; all others answer."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.looks = 0

    def examine(self, paths: tuple[str, ...]) -> FolderFacts | CwdProblem:
        if "hung" in paths[0]:
            self.looks += 1
            self.release.wait(30)
        return examine(paths)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    hanging = Hanging()
    monkeypatch.setattr(filesystem, "examine", hanging.examine)
    yield hanging
    hanging.release.set()


SILENT = CwdProblem(CwdProblemKind.SILENT)


async def test_hanging_folder_gives_no_answer_and_holds_up_nobody_else(disk: Hanging, tmp_path: Path) -> None:
    examiner = FolderExaminer(deadline_s=0.2)
    hung = [asyncio.ensure_future(examiner.examine([f"/hung/{n}"])) for n in range(20)]
    await asyncio.sleep(0)
    fine = await examiner.examine([str(tmp_path)])
    assert isinstance(fine, FolderFacts)
    assert not any(task.done() for task in hung)
    assert await asyncio.gather(*hung) == [SILENT] * 20


async def test_hanging_folder_holds_one_thread_however_often_it_is_asked_for(
    disk: Hanging, tmp_path: Path
) -> None:
    examiner = FolderExaminer(deadline_s=0.05)
    hung = str(folder(tmp_path / "hung"))
    for _ in range(3):
        assert await asyncio.gather(*(examiner.examine([hung]) for _ in range(5))) == [SILENT] * 5
    assert disk.looks == 1
    disk.release.set()
    async with asyncio.timeout(10):
        while not isinstance(await examiner.examine([hung]), FolderFacts):
            pass


async def test_folder_is_called_busy_if_too_many_others_hang(disk: Hanging, tmp_path: Path) -> None:
    examiner = FolderExaminer(deadline_s=SLOW_S + 0.1, max_hanging=2)
    answers = await asyncio.gather(*(examiner.examine([f"/hung/{n}"]) for n in range(2)))
    assert answers == [SILENT] * 2
    assert await examiner.examine([str(tmp_path)]) == CwdProblem(CwdProblemKind.BUSY)
    assert disk.looks == 2


async def test_folder_that_answered_before_is_read_however_many_hang(disk: Hanging, tmp_path: Path) -> None:
    examiner = FolderExaminer(deadline_s=SLOW_S + 0.1, max_hanging=2)
    assert isinstance(await examiner.examine([str(tmp_path)]), FolderFacts)
    await asyncio.gather(*(examiner.examine([f"/hung/{n}"]) for n in range(4)))
    assert isinstance(await examiner.examine([str(tmp_path)]), FolderFacts)


async def test_new_folder_is_read_while_seventy_others_hang(disk: Hanging, tmp_path: Path) -> None:
    examiner = FolderExaminer()
    hung = [asyncio.ensure_future(examiner.examine([f"/hung/{n}"])) for n in range(70)]
    await asyncio.sleep(0)
    assert isinstance(await examiner.examine([str(tmp_path)]), FolderFacts)
    disk.release.set()
    await asyncio.gather(*hung)


async def test_three_hundred_folders_at_once_are_all_read(tmp_path: Path) -> None:
    folders = [folder(tmp_path / str(n)) for n in range(300)]
    examiner = FolderExaminer(deadline_s=30)
    found = await asyncio.gather(*(examiner.examine([str(one)]) for one in folders))
    assert [one.folder for one in found if isinstance(one, FolderFacts)] == [str(one) for one in folders]


async def test_caller_who_leaves_does_not_disturb_the_others(disk: Hanging, tmp_path: Path) -> None:
    examiner = FolderExaminer(deadline_s=10)
    hung = str(folder(tmp_path / "hung"))
    leaver, stayer = (asyncio.ensure_future(examiner.examine([hung])) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    disk.release.set()
    assert isinstance(await stayer, FolderFacts)
    assert leaver.cancelled()


async def test_fault_of_the_examination_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(filesystem, "examine", broken)
    with pytest.raises(RuntimeError, match="bug"):
        await FolderExaminer().examine(["/"])


def test_answer_after_the_loop_is_gone_is_dropped(disk: Hanging) -> None:
    assert asyncio.run(FolderExaminer(deadline_s=0.05).examine(["/hung"])) == SILENT
    disk.release.set()
    for thread in threading.enumerate():
        if thread.name == "folder":
            thread.join(10)  # a fault in it would be a warning, and so an error


def test_identity_of_a_folder_made_anew_is_asked_anew(tmp_path: Path) -> None:
    root = folder(tmp_path / "ws")
    assert identify(str(root)) is not None
    root.rmdir()
    assert identify(str(root)) is None
