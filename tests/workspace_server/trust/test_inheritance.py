"""Worktrees of one repository share trust; whatever only claims to be one, or differs, is asked for.

Most repositories here are only the files by which git registers worktrees: git itself takes long to start.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.projects.git_repositories import repository, worktree
from workspace_server.command.trust_view import all_items
from workspace_server.trust.inheritance import content_digest, leads_out
from workspace_server.trust.item import TrustItem
from workspace_server.trust.store import TrustStore

SERVER: Mapping[str, Any] = {"command": "./serve.sh", "args": ["--port", "1"], "env": {"URL": "db://"}}


class TrustedRepository:
    """A repository whose server was trusted in its main tree, with one worktree beside it."""

    def __init__(self, folder: Path, entry: Mapping[str, Any] = SERVER) -> None:
        self.folder = folder.resolve()
        self.entry = entry
        self.main = folder.resolve() / "main"
        (self.main / ".git").mkdir(parents=True)
        self.write(self.main, entry)
        self.tree = self.add_tree(self.main / ".git", "tree")
        self.store = TrustStore(folder / "state" / "trust")
        self.store.trust(self.main, self.items(self.main))

    def add_tree(self, repository: Path, name: str) -> Path:
        """Register a worktree as git does, with the trusted files in it."""
        tree, entry = repository.parent.parent / name, repository / "worktrees" / name
        tree.mkdir()
        entry.mkdir(parents=True)
        (tree / ".git").write_text(f"gitdir: {entry}\n")
        (entry / "gitdir").write_text(f"{tree}/.git\n")
        (entry / "commondir").write_text("../..\n")
        self.write(tree, self.entry)
        return tree

    def write(self, tree: Path, entry: Mapping[str, Any]) -> None:
        (tree / "serve.sh").write_text("exec serve\n")
        (tree / ".mcp.json").write_text(json.dumps({"mcpServers": {"db": entry}}))

    def items(self, tree: Path) -> list[TrustItem]:
        return all_items(tree, self.folder / "config", {**os.environ})

    def verdict(self, tree: Path) -> str:
        return self.store.item_verdicts(tree, self.items(tree))["stdio:db"]

    def origins(self, tree: Path) -> dict[str, str]:
        return self.store.origins(tree, self.items(tree))


@pytest.fixture
def trusted(tmp_path: Path) -> TrustedRepository:
    return TrustedRepository(tmp_path)


def test_a_worktree_of_git_inherits_what_was_trusted(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = worktree(main)
    store, tool = TrustStore(tmp_path / "trust"), TrustItem("script:greet", "", {}, {"run.py": b""})
    store.trust(main, [tool])
    assert store.verdict(tree, tool) == "trusted"


def test_a_worktree_inherits_what_has_equal_bytes(trusted: TrustedRepository) -> None:
    assert trusted.verdict(trusted.tree) == "trusted"
    assert trusted.origins(trusted.tree) == {"stdio:db": str(trusted.main)}


def test_the_main_tree_and_other_worktrees_inherit_from_a_worktree(tmp_path: Path) -> None:
    trusted = TrustedRepository(tmp_path)
    other = trusted.add_tree(trusted.main / ".git", "other")
    trusted.store.untrust(trusted.main)
    trusted.store.trust(trusted.tree, trusted.items(trusted.tree))
    assert trusted.verdict(trusted.main) == trusted.verdict(other) == "trusted"


def test_worktrees_of_a_bare_repository_inherit_from_each_other(tmp_path: Path) -> None:
    trusted = TrustedRepository(tmp_path)
    bare = trusted.folder / "bare" / "project.git"
    first, second = trusted.add_tree(bare, "first"), trusted.add_tree(bare, "second")
    assert trusted.verdict(first) == "never", "another repository"
    trusted.store.trust(first, trusted.items(first))
    assert trusted.verdict(second) == "trusted"


def test_digests_alone_are_inherited_too(trusted: TrustedRepository) -> None:
    tool = TrustItem("script:greet", "", {"cwd": "."}, {"run.py": b"print(1)\n"})
    trusted.store.trust(trusted.main, [tool])
    digests = {tool.key: tool.digest(), "script:other": tool.digest()}
    assert trusted.store.verdicts(trusted.tree, digests) == {tool.key: "trusted", "script:other": "never"}
    assert (tool.key, tool.digest()) in trusted.store.decided(trusted.tree)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "serve.sh").write_text("exec other\n"),
        lambda tree: (tree / "serve.sh").chmod(0o755),
        lambda tree: (tree / ".mcp.json").write_text(
            json.dumps({"mcpServers": {"db": {**SERVER, "args": ["--port", "2"]}}})
        ),
        lambda tree: (tree / ".mcp.json").write_text(
            json.dumps({"mcpServers": {"db": {**SERVER, "env": {"URL": "x://"}}}})
        ),
    ],
    ids=["bytes", "mode", "arguments", "variables"],
)
def test_what_differs_is_asked_for(trusted: TrustedRepository, change: Callable[[Path], object]) -> None:
    change(trusted.tree)
    assert trusted.verdict(trusted.tree) == "never"
    assert trusted.origins(trusted.tree) == {}


@pytest.mark.parametrize(
    "entry",
    [
        {**SERVER, "args": ["../shared/server.py"]},
        {**SERVER, "args": ["-I../include"]},
        {**SERVER, "env": {"PYTHONPATH": "lib:../lib"}},
        {**SERVER, "command": "../main/serve.sh"},
    ],
    ids=["argument", "option", "variable", "program"],
)
def test_a_path_that_leads_out_of_the_folder_is_asked_for(tmp_path: Path, entry: Mapping[str, Any]) -> None:
    trusted = TrustedRepository(tmp_path, entry)
    assert trusted.verdict(trusted.main) == "trusted"
    assert trusted.verdict(trusted.tree) == "never"


def test_the_digest_of_the_content_is_that_of_the_same_server_in_every_worktree(
    trusted: TrustedRepository,
) -> None:
    (main,), (tree,) = trusted.items(trusted.main), trusted.items(trusted.tree)
    digest = content_digest(main, str(trusted.main))
    assert content_digest(tree, str(trusted.tree)) == digest
    (trusted.tree / "serve.sh").write_text("exec other\n")
    (changed,) = trusted.items(trusted.tree)
    assert content_digest(changed, str(trusted.tree)) != digest
    (trusted.main / ".mcp.json").rename(trusted.main / ".cursor.json")
    (trusted.main / ".cursor").mkdir()
    (trusted.main / ".cursor.json").rename(trusted.main / ".cursor/mcp.json")
    (moved,) = trusted.items(trusted.main)
    assert content_digest(moved, str(trusted.main)) == digest


def test_dots_that_are_no_part_of_a_path_lead_nowhere() -> None:
    assert leads_out({"args": ["x=.."]}) and leads_out([b"LIB=../x"])
    assert not leads_out({"args": ["wait...", "a..b", "./x", "1.2", "--range=a..b"]})


def claim_with_a_file(trusted: TrustedRepository) -> Path:
    """A folder whose `.git` file names the worktree of another."""
    hostile = trusted.folder / "hostile"
    shutil.copytree(trusted.tree, hostile)
    return hostile


def claim_the_repository(trusted: TrustedRepository) -> Path:
    """A folder whose `.git` file names the repository itself, as that of a submodule would."""
    hostile = claim_with_a_file(trusted)
    (hostile / ".git").write_text(f"gitdir: {trusted.main / '.git'}\n")
    return hostile


def claim_with_a_link(trusted: TrustedRepository) -> Path:
    """A folder whose `.git` is a link to the repository."""
    hostile = claim_with_a_file(trusted)
    (hostile / ".git").unlink()
    (hostile / ".git").symlink_to(trusted.main / ".git")
    return hostile


def claim_with_a_link_to_the_file(trusted: TrustedRepository) -> Path:
    """A folder whose `.git` is a link to the file of a true worktree."""
    hostile = claim_with_a_file(trusted)
    (hostile / ".git").unlink()
    (hostile / ".git").symlink_to(trusted.tree / ".git")
    return hostile


def claim_with_a_common_folder(trusted: TrustedRepository) -> Path:
    """A repository of its own whose `commondir` names the trusted one."""
    hostile = trusted.folder / "hostile"
    shutil.copytree(trusted.main, hostile)
    (hostile / ".git" / "commondir").write_text(f"{trusted.main / '.git'}\n")
    return hostile


def claim_with_an_entry(trusted: TrustedRepository) -> Path:
    """A worktree of a repository of its own, which names the trusted one as the common folder."""
    forged = trusted.folder / "forged" / ".git"
    hostile = trusted.add_tree(forged, "hostile")
    (forged / "worktrees/hostile/commondir").write_text(f"{trusted.main / '.git'}\n")
    return hostile


@pytest.mark.parametrize(
    "claim",
    [
        claim_with_a_file,
        claim_the_repository,
        claim_with_a_link,
        claim_with_a_link_to_the_file,
        claim_with_a_common_folder,
        claim_with_an_entry,
    ],
)
def test_a_folder_that_claims_a_repository_inherits_nothing(
    trusted: TrustedRepository, claim: Callable[[TrustedRepository], Path]
) -> None:
    hostile = claim(trusted)
    assert trusted.verdict(hostile) == "never"
    assert trusted.store.data_marks(hostile) == {}
    assert trusted.store.decided(hostile) == frozenset()


@pytest.mark.parametrize("victim", ["main", "tree"])
def test_a_repository_that_claims_a_folder_inherits_nothing_of_it(
    trusted: TrustedRepository, victim: str
) -> None:
    hostile = trusted.folder / "hostile"
    shutil.copytree(trusted.main, hostile)
    own = trusted.add_tree(hostile / ".git", "own")
    (hostile / ".git/worktrees/own/gitdir").write_text(f"{getattr(trusted, victim) / '.git'}\n")
    assert trusted.verdict(hostile) == trusted.verdict(own) == "never"
    assert trusted.verdict(trusted.tree) == "trusted", "and the folder itself is what it was"


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("place", [".git", ".git/worktrees", ".git/worktrees/tree"])
def test_a_repository_in_which_others_may_register_worktrees_proves_nothing(
    trusted: TrustedRepository, place: str
) -> None:
    (trusted.main / place).chmod(0o777)
    assert trusted.verdict(trusted.tree) == "never"


def test_a_repository_that_was_replaced_gives_nothing(trusted: TrustedRepository) -> None:
    shutil.copytree(trusted.main / ".git", trusted.folder / "copy")
    shutil.move(trusted.main / ".git", trusted.folder / "was")  # keeps its inode from being given again
    shutil.move(trusted.folder / "copy", trusted.main / ".git")
    assert trusted.verdict(trusted.tree) == "never"


def test_what_is_revoked_in_one_worktree_comes_back_from_no_other(trusted: TrustedRepository) -> None:
    gone = trusted.add_tree(trusted.main / ".git", "gone")
    for tree in (trusted.tree, gone):
        trusted.store.trust(tree, trusted.items(tree))
    shutil.move(gone, trusted.folder / "away")
    revoked = trusted.store.untrust(trusted.tree)
    assert revoked[0] == str(trusted.tree)
    assert set(revoked) == {str(trusted.tree), str(trusted.main), str(gone)}
    shutil.move(trusted.folder / "away", gone)
    assert {trusted.verdict(tree) for tree in (trusted.main, trusted.tree, gone)} == {"never"}


def test_what_a_worktree_only_inherited_is_revoked_there(trusted: TrustedRepository) -> None:
    assert trusted.store.untrust(trusted.tree) == (str(trusted.main),)
    assert trusted.verdict(trusted.main) == "never"


def test_revoking_leaves_other_repositories_alone(trusted: TrustedRepository) -> None:
    clone = trusted.folder / "clone"
    shutil.copytree(trusted.main, clone)
    trusted.store.trust(clone, trusted.items(clone))
    trusted.store.untrust(trusted.main)
    assert trusted.verdict(clone) == "trusted"


def test_nothing_is_inherited_where_the_user_says_so(trusted: TrustedRepository) -> None:
    trusted.store.inherits = False
    assert trusted.verdict(trusted.tree) == "never"
    assert trusted.verdict(trusted.main) == "trusted"
    assert list(trusted.store.paths_of_proof(trusted.tree)) == []


def test_nothing_is_inherited_where_the_own_record_is_damaged(trusted: TrustedRepository) -> None:
    trusted.store.trust(trusted.tree, [])
    record = next(
        file
        for file in (trusted.folder / "state/trust").glob("*.json")
        if str(trusted.tree) in file.read_text()
    )
    record.write_text("{")
    assert trusted.verdict(trusted.tree) == "never"


def test_a_worktree_made_again_at_the_same_path_inherits(trusted: TrustedRepository) -> None:
    trusted.store.trust(trusted.tree, trusted.items(trusted.tree))
    trusted.tree.rename(trusted.folder / "was")
    shutil.copytree(trusted.folder / "was", trusted.tree)
    assert trusted.verdict(trusted.tree) == "trusted"
    assert trusted.store.issue(trusted.tree) is None


def test_the_proof_names_what_it_depends_on(trusted: TrustedRepository) -> None:
    paths = set(trusted.store.paths_of_proof(trusted.tree))
    entry = trusted.main / ".git/worktrees/tree/gitdir"
    assert {str(trusted.tree / ".git"), str(entry), str(trusted.main)} <= paths
