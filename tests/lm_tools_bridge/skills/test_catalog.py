"""Which skills are found, which are refused and why, and what of them is trusted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from lm_tools_bridge.skills import folders
from lm_tools_bridge.skills.catalog import SkillCatalog, SkillSnapshot, user_folders
from support.projects.skill_folders import (
    everything_trusted,
    nothing_trusted,
    skill_text,
    write_skill,
)
from workspace_server.trust.item import Verdict


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "user"
    folder.mkdir()
    return folder


def look(root: Path, home: Path | None = None) -> SkillSnapshot:
    """What one look finds in the project, all of it trusted, and in a home."""
    own = [] if home is None else user_folders(home / "config", {"HOME": str(home)})
    return SkillCatalog(root, everything_trusted, own).look()


def served(found: SkillSnapshot) -> list[str]:
    return [skill.uri for skill in found.skills]


def messages(found: SkillSnapshot) -> list[str]:
    return [issue.message for issue in found.issues]


def test_skills_of_all_folders_of_project_and_user_are_served(root: Path, home: Path) -> None:
    for number, folder in enumerate((".claude/skills", ".agents/skills", ".lm-tools-bridge/skills")):
        write_skill(root / folder, f"p{number}")
    for number, folder in enumerate((".claude/skills", ".agents/skills", "config/skills")):
        write_skill(home / folder, f"u{number}")
    found = look(root, home)
    project = [f"skill://project/p{number}/SKILL.md" for number in range(3)]
    assert served(found) == [*project, *(f"skill://user/u{number}/SKILL.md" for number in range(3))]
    assert found.issues == ()


def test_all_files_are_served_but_hidden_ones(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "a", references__guide_md="g", scripts__run="x")
    for hidden in (".env", "old~", "__pycache__/a.pyc", ".git/config"):
        (place / hidden).parent.mkdir(exist_ok=True)
        (place / hidden).write_text("secret")
    assert [file.name for file in look(root).skills[0].files] == [
        "SKILL.md",
        "references/guide.md",
        "scripts/run",
    ]


def test_a_nested_skill_is_a_skill_and_part_of_the_outer_one(root: Path) -> None:
    outer = write_skill(root / ".claude/skills", "outer")
    write_skill(outer / "parts", "inner", notes_md="n")
    found = look(root)
    assert served(found) == [
        "skill://project/outer/SKILL.md",
        "skill://project/outer/parts/inner/SKILL.md",
    ]
    assert [file.name for file in found.skills[0].files] == [
        "SKILL.md",
        "parts/inner/SKILL.md",
        "parts/inner/notes.md",
    ]
    assert len(found.skills[1].files) == 2


def test_a_group_of_skills_is_part_of_their_uris(root: Path) -> None:
    write_skill(root / ".claude/skills/Group 1", "a")
    assert served(look(root)) == ["skill://project/Group%201/a/SKILL.md"]


def test_a_bad_front_matter_is_told_with_file_and_line_and_others_stay(root: Path) -> None:
    write_skill(root / ".claude/skills", "good")
    write_skill(root / ".claude/skills", "bad", SKILL_md="---\nname: bad\ndescription: x: y\n---\n")
    found = look(root)
    assert served(found) == ["skill://project/good/SKILL.md"]
    (message,) = messages(found)
    assert ".claude/skills/bad/SKILL.md, line 3: the front matter is not valid YAML" in message


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../outside.txt", "../good/SKILL.md", "/"])
def test_a_link_that_leads_out_of_a_skill_refuses_the_skill(root: Path, target: str) -> None:
    (root / "outside.txt").write_text("of the project, but not of the skill")
    write_skill(root / ".claude/skills", "good")
    place = write_skill(root / ".claude/skills", "bad")
    (place / "data.txt").symlink_to(target)
    found = look(root)
    assert served(found) == ["skill://project/good/SKILL.md"]
    assert "data.txt is a link that leads out of the skill" in messages(found)[0]


def test_a_skill_file_that_is_a_link_to_another_place_is_refused(root: Path) -> None:
    (root / "secret.md").write_text(skill_text("bad"))
    place = root / ".claude/skills/bad"
    place.mkdir(parents=True)
    (place / "SKILL.md").symlink_to(root / "secret.md")
    found = look(root)
    assert served(found) == []
    assert "leads out of the skill" in messages(found)[0]


@pytest.mark.parametrize("linked", [".claude", ".claude/skills", ".claude/skills/a"])
def test_a_folder_of_the_project_must_not_lead_out_of_it(root: Path, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    write_skill(elsewhere / ".claude/skills", "a")
    (root / linked).parent.mkdir(parents=True, exist_ok=True)
    (root / linked).symlink_to(elsewhere / linked)
    found = look(root)
    assert served(found) == []
    assert "leads out of the project" in messages(found)[0]


def test_a_link_to_another_folder_of_the_project_adds_no_skill_twice(root: Path) -> None:
    write_skill(root / ".agents/skills", "a")
    (root / ".claude/skills").mkdir(parents=True)
    (root / ".claude/skills/a").symlink_to("../../.agents/skills/a")
    (root / ".claude/skills/loop").symlink_to(".")
    found = look(root)
    assert served(found) == ["skill://project/a/SKILL.md"]
    assert found.issues == ()


def test_a_link_inside_a_skill_is_a_file_of_it(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "a", real_md="content")
    (place / "alias.md").symlink_to("real.md")
    by_name = {file.name: file for file in look(root).skills[0].files}
    assert by_name["alias.md"].digest == by_name["real.md"].digest


def test_a_file_of_1_gib_is_refused_without_being_read(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "big")
    with (place / "data.bin").open("wb") as file:
        file.truncate(1 << 30)
    found = look(root)
    assert served(found) == []
    assert "larger than 16 MiB" in messages(found)[0]


def test_a_skill_of_exactly_the_largest_size_and_count_is_served(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "full")
    for number in range(folders.MAX_FILES - 2):
        (place / f"{number}.md").touch()
    rest = folders.MAX_BYTES - (place / "SKILL.md").stat().st_size
    with (place / "data.bin").open("wb") as file:
        file.truncate(rest)
    assert len(look(root).skills[0].files) == folders.MAX_FILES
    (place / "one-more.md").touch()
    assert "more than 512 files" in messages(look(root))[0]


def test_more_skills_than_the_limit_are_left_out_and_told(root: Path, home: Path) -> None:
    for number in range(folders.MAX_SKILLS + 3):
        write_skill(root / ".claude/skills", f"s{number}")
    write_skill(home / ".claude/skills", "mine")
    found = look(root, home)
    assert len(found.skills) <= folders.MAX_SKILLS + 2
    assert "skill://user/mine/SKILL.md" in served(found)
    assert any("the rest is left out" in message for message in messages(found))


def test_folders_beyond_the_depth_limit_refuse_the_skill(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "deep")
    deep = place / "/".join("d" * 12)
    deep.mkdir(parents=True)
    (deep / "x.md").touch()
    assert "levels deep" in messages(look(root))[0]


def test_a_pipe_in_a_skill_is_no_file_of_it(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "a")
    os.mkfifo(place / "pipe")
    assert [file.name for file in look(root).skills[0].files] == ["SKILL.md"]


def test_a_project_cannot_take_the_name_of_a_skill_of_the_user(root: Path, home: Path) -> None:
    write_skill(root / ".claude/skills", "deploy", SKILL_md=skill_text("deploy", "hostile"))
    write_skill(home / ".claude/skills", "deploy", SKILL_md=skill_text("deploy", "mine"))
    found = look(root, home)
    by_uri = {skill.uri: skill.front_matter["description"] for skill in found.skills}
    assert by_uri == {
        "skill://project/deploy/SKILL.md": "hostile",
        "skill://user/deploy/SKILL.md": "mine",
    }
    assert messages(found) == [
        'Several skills are named "deploy", and all of them are served:'
        " skill://project/deploy/SKILL.md, skill://user/deploy/SKILL.md"
    ]


def test_of_two_skills_at_one_uri_the_first_folder_wins(root: Path) -> None:
    write_skill(root / ".claude/skills", "a", SKILL_md=skill_text("a", "second"))
    write_skill(root / ".agents/skills", "a", SKILL_md=skill_text("a", "first"))
    found = look(root)
    assert [skill.front_matter["description"] for skill in found.skills] == ["first"]
    assert messages(found) == [".claude/skills/a is left out: .agents/skills/a has the same path"]


def test_a_skill_of_the_project_waits_for_trust_in_exactly_its_bytes(root: Path, home: Path) -> None:
    place = write_skill(root / ".claude/skills", "a", more_md="1")
    write_skill(home / ".claude/skills", "mine")
    trusted: dict[str, str] = {}

    def trust(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
        return {key: "trusted" if trusted.get(key) == digest else "never" for key, digest in digests.items()}

    catalog = SkillCatalog(root, trust, [home / ".claude/skills"])
    found = catalog.look()
    assert served(found) == ["skill://user/mine/SKILL.md"]
    assert found.pending == {"skill://project/a/SKILL.md": "a"}
    assert not any(uri.startswith("skill://project/") for uri in found.files)
    (item,) = SkillCatalog(root, nothing_trusted, keep_items=True).look().items
    trusted[item.key] = item.digest()
    assert "skill://project/a/SKILL.md" in served(catalog.look())
    for change in (
        lambda: (place / "more.md").write_text("2"),
        lambda: (place / "more.md").write_text("1"),
        lambda: (place / "new.md").write_text(""),
        (place / "new.md").unlink,
        lambda: (place / "more.md").chmod(0o755),
    ):
        was = served(catalog.look())
        change()
        assert served(catalog.look()) != was


def test_an_unchanged_folder_gives_the_same_snapshot(root: Path) -> None:
    write_skill(root / ".claude/skills", "a")
    catalog = SkillCatalog(root, everything_trusted)
    assert catalog.look() is catalog.look()


def test_a_folder_that_appears_or_goes_is_seen(root: Path) -> None:
    catalog = SkillCatalog(root, everything_trusted)
    assert served(catalog.look()) == []
    write_skill(root / ".claude/skills", "a")
    assert served(catalog.look()) == ["skill://project/a/SKILL.md"]
    shutil.rmtree(root / ".claude")
    assert served(catalog.look()) == []


def test_a_name_that_is_not_utf_8_refuses_the_skill(root: Path) -> None:
    place = write_skill(root / ".claude/skills", "a")
    (Path(os.fsdecode(os.fsencode(place) + b"/\xff.md"))).touch()
    assert "not UTF-8" in messages(look(root))[0]
