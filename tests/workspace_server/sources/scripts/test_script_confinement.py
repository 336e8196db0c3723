"""Scripts of a workspace write nothing from which later programs run: caches of tools, git's hooks and settings."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from support.projects.script_tools import script_source
from workspace_server.processes import confinement
from workspace_server.sources.scripts.script_confinement import (
    cache_folder,
    script_confinement,
    script_variables,
)

needs_fixed_files = pytest.mark.skipif(
    "fixed-files" not in confinement.available_layers(), reason="needs mount namespaces"
)
needs_landlock = pytest.mark.skipif(
    not any(layer.startswith("landlock") for layer in confinement.available_layers()), reason="needs Landlock"
)
CACHES_OF_TOOLS = (
    ".npm/_npx/h/node_modules/srv/index.js", ".cache/uv/archive-v0/h/bin/srv", ".cache/pre-commit/repo/hook",
    ".cache/pip/wheels/x", ".cargo/registry/src/x/build.rs", ".cargo/git/x", ".cargo/bin/x", ".ccache/x",
    "go/pkg/mod/x/x.go", ".gradle/caches/x", ".gradle/init.d/x.gradle", ".m2/repository/x.jar",
    ".nuget/packages/x", ".local/share/pnpm/store/x", ".yarn/berry/x", ".local/share/pipx/x", ".bun/install/x",
    ".cache/yarn/x", ".cache/lm-tools-bridge/scripts/another/uv/x", ".cache/lm-tools-bridge/x",
)  # fmt: skip
LATER_RUN = (
    "hooks/post-checkout", "hooks/pre-commit", "config", "config.worktree", "info/attributes", "info/exclude",
    "modules/sub/config", "modules/sub/hooks/post-checkout", "worktrees/w/config.worktree",
    "worktrees/w/commondir",
)  # fmt: skip


def git(folder: Path, *words: str) -> str:
    """What git answers; the configuration of this machine's user plays no part."""
    env = {"HOME": str(folder.parent), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@example.org")
    (root / "a").write_text("one\n")
    git(root, "add", "a")
    git(root, "commit", "-q", "-m", "one")
    shutil.rmtree(root / ".git/info")
    for name in ("modules/sub/hooks", "worktrees/w"):
        (root / ".git" / name).mkdir(parents=True)
    return root


async def shell(root: Path, text: str) -> str:
    """What a trusted script of the project prints."""
    shutil.rmtree(root / "tools", ignore_errors=True)
    async with script_source(root.parent) as scripts:
        scripts.write("t", f"#!/bin/sh\nexec 2>&1\n{text}\n", file="run")
        answer = await scripts.text("t")
    shutil.rmtree(root / "tools")
    shutil.rmtree(root.parent / "run")
    return answer


def described(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a folder, with its mode and content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in files
    }


@pytest.mark.parametrize("tool", CACHES_OF_TOOLS)
def test_the_caches_of_the_users_tools_are_not_among_the_writable_folders(tmp_path: Path, tool: str) -> None:
    limits = script_confinement(
        tmp_path / "project", tmp_path / "call", {"HOME": str(tmp_path / "home"), "TMPDIR": "/nowhere"}
    )
    place = tmp_path / "home" / tool
    in_home = [folder for folder in limits.read_write if folder.is_relative_to(tmp_path / "home")]
    assert in_home == [cache_folder(tmp_path / "project", {"HOME": str(tmp_path / "home")})]
    assert not any(place.is_relative_to(folder) for folder in in_home)


def test_every_workspace_has_caches_of_its_own(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    folders = {cache_folder(Path(root), home) for root in ("/a", "/b", "/a/b")}
    assert len(folders) == 3
    variables = script_variables(cache_folder(Path("/a"), home))
    places = {name: place for name, place in variables.items() if not name.startswith("GIT_")}
    assert all(str(cache_folder(Path("/a"), home)) in place for place in places.values())
    assert len(set(places.values())) == len(places)
    assert cache_folder(Path("/a"), {}) is None
    assert all(name.startswith("GIT_") for name in script_variables(None))


def test_a_planted_link_does_not_lead_the_caches_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".cache/lm-tools-bridge").symlink_to(tmp_path / ".ssh")
    with pytest.raises(OSError, match="is a symbolic link"):
        script_confinement(tmp_path / "project", tmp_path / "call", {"HOME": str(tmp_path)})
    assert list((tmp_path / ".ssh").iterdir()) == []


@needs_landlock
async def test_a_script_finds_writable_caches(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    variables = script_variables(Path("/x"))
    names = sorted(name for name, place in variables.items() if place.startswith("/x"))
    lines = "\n".join(f'mkdir -p "${name}/x" && touch "${name}/x/y" && echo {name}' for name in names)
    assert (await shell(tmp_path / "project", lines)).split() == names


@needs_fixed_files
async def test_git_works_in_a_script(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/main", "main")
    git(repository, "remote", "add", "origin", "/nowhere")
    answer = await shell(
        repository,
        """
set -e
cd "$LMTB_WORKSPACE"
echo two >> a; git add a; git commit -q -m two
git checkout -q -b topic; echo three > b; git add b; git commit -q -m three
echo four >> b; git stash -q; git stash pop -q; git checkout -q -- b
git checkout -q main; echo zero > z; git add z; git commit -q -m zero
git checkout -q topic; git rebase -q main
git tag v1; git branch other
git reset -q --hard HEAD~1; git merge -q main; git cherry-pick v1 >/dev/null
git checkout -q -b far origin/main; git checkout -q topic
git log --format=%s
""",
    )
    assert answer.split() == ["three", "zero", "two", "one"]
    assert git(repository, "log", "--format=%s").split() == ["three", "zero", "two", "one"]
    git(repository, "fsck", "--strict")


@needs_fixed_files
@pytest.mark.parametrize("name", LATER_RUN)
async def test_what_git_runs_or_believes_is_not_written(repository: Path, name: str) -> None:
    before = described(repository / ".git")
    place = f'"$LMTB_WORKSPACE/.git/{name}"'
    folder = f'"$LMTB_WORKSPACE/.git/{name.partition("/")[0]}"'
    await shell(
        repository,
        f"""
echo '[core] fsmonitor = /tmp/evil' > {place}
echo evil >> {place}; echo evil > "$LMTB_WORKSPACE/new"; mv -f "$LMTB_WORKSPACE/new" {place}
ln -sf /tmp/evil {place}; rm -rf {place}; chmod 777 {place}
mv {folder} "$LMTB_WORKSPACE/aside"; rm -rf {folder}; mkdir -p {folder}; ln -s /tmp {folder}
""",
    )
    after = described(repository / ".git")
    assert {
        path: fact for path, fact in after.items() if path != "config.worktree" or path in before
    } == before
    assert not (repository / ".git" / name).is_symlink()


@needs_fixed_files
@pytest.mark.parametrize("name", ["commondir", "config.worktree"])
async def test_a_file_that_leads_git_to_another_configuration_does_not_stay(
    repository: Path, name: str
) -> None:
    await shell(repository, f'mkdir "$LMTB_WORKSPACE/evil"; echo ../evil > "$LMTB_WORKSPACE/.git/{name}"')
    assert not (repository / ".git" / name).exists()
    assert git(repository, "log", "--format=%s") == "one\n"


@needs_fixed_files
async def test_a_file_that_was_there_before_stays_and_is_not_written(repository: Path) -> None:
    (repository / ".git/config.worktree").write_text("[core]\n")
    await shell(repository, 'echo evil > "$LMTB_WORKSPACE/.git/config.worktree"')
    assert (repository / ".git/config.worktree").read_text() == "[core]\n"


@needs_fixed_files
async def test_the_git_folder_is_not_exchanged(repository: Path) -> None:
    await shell(
        repository,
        'cd "$LMTB_WORKSPACE"; mv .git aside; mkdir -p .git/hooks; rm -rf .git/config .git/hooks; ls -a aside',
    )
    assert not (repository / "aside").exists()
    assert (repository / ".git/config").exists()
    assert git(repository, "log", "--format=%s") == "one\n"


@needs_fixed_files
async def test_the_file_of_a_worktree_is_not_exchanged(repository: Path, tmp_path: Path) -> None:
    shutil.rmtree(repository / ".git/worktrees")
    main = tmp_path / "main"
    repository.rename(main)
    git(main, "worktree", "add", "-q", str(repository), "-b", "side")
    before = (repository / ".git").read_bytes()
    await shell(
        repository, 'cd "$LMTB_WORKSPACE"; echo "gitdir: evil" > .git; rm -f .git; mv -f tools/x .git'
    )
    assert (repository / ".git").read_bytes() == before


@needs_fixed_files
async def test_a_git_folder_with_links_in_it_is_read_only_as_a_whole(repository: Path) -> None:
    """A link cannot be made read-only, so what it leads to could be exchanged."""
    shutil.rmtree(repository / ".git/hooks")
    (repository / ".git/hooks").symlink_to("../githooks")
    answer = await shell(repository, 'cd "$LMTB_WORKSPACE"; rm -f .git/hooks; touch .git/x; echo done')
    assert "Read-only file system" in answer
    assert (repository / ".git/hooks").is_symlink()


@needs_fixed_files
@needs_landlock
async def test_the_mounts_of_a_script_cannot_be_taken_away(repository: Path) -> None:
    answer = await shell(
        repository,
        """
cd "$LMTB_WORKSPACE"
umount .git/config; umount -l .git/config; mount -o remount,rw .git/config
unshare -m umount .git/config; unshare -Urm umount .git/config
(echo evil >> /proc/1/root"$PWD"/.git/config); (echo evil >> .git/config); true
""",
    )
    assert "evil" not in (repository / ".git/config").read_text()
    assert "Read-only file system" in answer


@needs_fixed_files
async def test_a_script_that_hides_stays_without_rights_to_git(repository: Path) -> None:
    await shell(
        repository,
        """
cd "$LMTB_WORKSPACE"
(env -i /bin/sh -c 'setsid /bin/sh -c "echo evil >> .git/config; echo evil > .git/hooks/pre-commit; touch ran"' &)
while [ ! -e ran ]; do :; done
""",
    )
    assert (repository / "ran").exists()
    assert "evil" not in (repository / ".git/config").read_text()
    assert not (repository / ".git/hooks/pre-commit").exists()


async def test_a_project_without_git_gets_none(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    assert await shell(tmp_path / "project", "echo done") == "done"
    assert not (tmp_path / "project/.git").exists()
