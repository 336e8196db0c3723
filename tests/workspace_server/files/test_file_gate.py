"""The gate to files whose text is shown: what counts is the file that is open, not the path that led there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workspace_server.files.file_gate import OUTSIDE, FileGate

SECRET = "aws_secret_access_key"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project beside a secret, a library, and a folder whose name begins like the project's."""
    home = Path(os.path.realpath(tmp_path))
    for name in ("proj/src", "proj-private", "lib", ".aws"):
        (home / name).mkdir(parents=True)
    (home / "proj/src/a.py").write_text("inside")
    (home / ".aws/credentials").write_text(SECRET)
    (home / "proj-private/a.py").write_text(SECRET)
    (home / "lib/b.py").write_text("library")
    return home / "proj"


def text(gate: FileGate, path: Path) -> str:
    with os.fdopen(gate.open(path), "rb") as file:
        return file.read().decode()


def link(root: Path, target: str) -> Path:
    path = root / "link.py"
    path.symlink_to(target)
    return path


def test_files_of_the_workspace_and_of_libraries_open(root: Path) -> None:
    gate = FileGate([root], [root.parent / "lib"])
    assert text(gate, root / "src/a.py") == "inside"
    assert text(gate, root.parent / "lib/b.py") == "library"
    assert text(gate, link(root, "src/a.py")) == "inside"


@pytest.mark.parametrize(
    "path",
    [
        lambda root: root.parent / ".aws/credentials",
        lambda root: root / "../.aws/credentials",
        lambda root: root.parent / "proj-private/a.py",
        lambda root: root.parent / "lib/b.py",
        lambda root: link(root, "../.aws/credentials"),
        lambda root: link(root, "/proc/self/environ"),
        lambda root: link(root, "/proc/self/cwd/../etc/passwd"),
        lambda root: link(root, "/dev/stdin"),
        lambda root: link(root, "../.aws") / "credentials",
    ],
)
def test_whatever_leads_to_another_file_does_not_open_it(root: Path, path: Callable[[Path], Path]) -> None:
    gate = FileGate([root])
    with pytest.raises(OSError, match=OUTSIDE):
        gate.open(path(root))


def test_a_chain_of_links_counts_by_its_end(root: Path) -> None:
    (root / "first.py").symlink_to("second.py")
    (root / "second.py").symlink_to("../.aws/credentials")
    assert not FileGate([root]).admits(root / "first.py")


def test_a_folder_that_becomes_a_link_between_look_and_opening_shows_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / ".aws/a.py").write_text(SECRET)
    resolve = os.path.realpath

    def exchanged(path: str | os.PathLike[str]) -> str:
        real = resolve(path)
        (root / "src").rename(root / "was")
        (root / "src").symlink_to(root.parent / ".aws")
        return real

    monkeypatch.setattr("os.path.realpath", exchanged)
    with pytest.raises(OSError, match=OUTSIDE):
        FileGate([root]).open(root / "src/a.py")


def test_a_file_that_becomes_a_link_between_look_and_opening_shows_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = os.path.realpath

    def exchanged(path: str | os.PathLike[str]) -> str:
        real = resolve(path)
        (root / "src/a.py").unlink()
        (root / "src/a.py").symlink_to(root.parent / ".aws/credentials")
        return real

    monkeypatch.setattr("os.path.realpath", exchanged)
    with pytest.raises(OSError):
        FileGate([root]).open(root / "src/a.py")


def test_pipes_and_folders_do_not_open(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    for path, reason in ((root / "pipe.py", "not a regular file"), (root / "src", "[Ii]s a directory")):
        with pytest.raises(OSError, match=reason):
            FileGate([root]).open(path)


def test_no_descriptor_stays_open_after_a_refusal(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in (root / "src", root.parent / ".aws/credentials"):
        with pytest.raises(OSError):
            FileGate([root]).open(path)
    assert len(os.listdir("/proc/self/fd")) == before
