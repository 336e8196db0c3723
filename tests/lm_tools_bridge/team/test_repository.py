"""Where a repository comes from and what is checked out, read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.team.repository import Repository, repository_of, without_credentials

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = '[core]\n\turl = wrong\n[remote "origin"]\n\turl = https://me:secret@git.example.com/x.git\n\tfetch = +refs\n'


def repository(folder: Path, head: str, **refs: str) -> Path:
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "config").write_text(CONFIG)
    (folder / ".git" / "HEAD").write_text(head)
    for name, text in refs.items():
        (folder / ".git" / "refs" / "heads" / name).write_text(text)
    return folder


def test_the_origin_has_no_credentials(tmp_path: Path) -> None:
    found = repository_of(repository(tmp_path, f"{COMMIT}\n"))
    assert found == Repository("https://git.example.com/x.git", COMMIT)


def test_a_branch_is_followed(tmp_path: Path) -> None:
    assert repository_of(repository(tmp_path, "ref: refs/heads/main\n", main=COMMIT)).revision == COMMIT


def test_packed_branches_are_followed(tmp_path: Path) -> None:
    folder = repository(tmp_path, "ref: refs/heads/main\n")
    (folder / ".git" / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    assert repository_of(folder).revision == COMMIT


def test_a_worktree_is_followed(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", "ref: refs/heads/main\n", main=COMMIT)
    place = main / ".git" / "worktrees" / "second"
    place.mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_text("../..\n")
    second = tmp_path / "second"
    second.mkdir()
    (second / ".git").write_text(f"gitdir: {place}\n")
    assert repository_of(second) == Repository("https://git.example.com/x.git", COMMIT)


@pytest.mark.parametrize("head", ["ref: ../../../etc/passwd\n", "ref: /etc/passwd\n", "nonsense", ""])
def test_a_head_that_leads_elsewhere_gives_no_revision(tmp_path: Path, head: str) -> None:
    assert repository_of(repository(tmp_path, head)).revision == ""


def test_a_folder_without_repository_has_none(tmp_path: Path) -> None:
    assert repository_of(tmp_path) == Repository()


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("git@example.com:x.git", "git@example.com:x.git"),
        ("ssh://git@example.com/x", "ssh://example.com/x"),
        ("https://example.com/x?token=1#y", "https://example.com/x"),
        ("https://[bad", ""),
    ],
)
def test_credentials_are_removed_from_urls(url: str, kept: str) -> None:
    assert without_credentials(url) == kept
