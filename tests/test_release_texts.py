"""The texts of a release: notes, the registry's entry, the bundle's manifest and program, man pages, the .deb's control."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import manager
from scripts.releasing import artifacts
from scripts.releasing import release_texts as texts

ROOT = Path(manager.__file__).parents[1]
CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- A page.

## [0.1.0]

- The beginning.
"""
HELP = """Usage: lmtb calls [OPTIONS]

  Show what agents did.

  .starts like a request; C:\\new has a backslash.

Options:
  --errors  Only calls that failed.

Figures:
  stats  Count them.
"""


def test_notes_are_the_dated_section_of_the_version() -> None:
    assert texts.release_notes(CHANGELOG, "0.2.0") == "### Added\n\n- A page."
    assert texts.release_notes(CHANGELOG, "0.1.0") is None, "without a date it is not released"
    assert texts.release_notes(CHANGELOG, "0.3.0") is None
    assert texts.unreleased_notes(CHANGELOG) == ""
    assert "- The beginning." in texts.unreleased_notes(CHANGELOG.replace("[0.1.0]", "[Unreleased]").replace(
        "## [Unreleased]\n\n## [0.2", "## [0.2"))  # fmt: skip


def test_the_changelog_of_this_project_can_be_read() -> None:
    assert texts.unreleased_notes((ROOT / "CHANGELOG.md").read_text("utf-8"))


def test_the_registrys_entry_names_one_exact_version_and_a_short_description() -> None:
    entry = texts.registry_entry("io.github.ann", "0.2.0", "One word after another, " * 10)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= texts.LONGEST_SUMMARY
    (package,) = entry["packages"]
    assert (entry["version"], package["version"]) == ("0.2.0", "0.2.0")
    assert package["packageArguments"] == [{"type": "positional", "value": "connect"}]


def test_the_bundle_runs_what_is_installed_for_the_chosen_folder(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    program = tmp_path / "server/connect"
    program.write_text(texts.bundle_program("w.whl"))
    lmtb = tmp_path / "bin/lmtb"
    lmtb.parent.mkdir()
    lmtb.write_text('#!/bin/sh\necho "$@"\n')
    for file in (program, lmtb):
        file.chmod(0o755)
    environment = {"PATH": f"{lmtb.parent}:{os.defpath}", "HOME": str(tmp_path)}
    done = subprocess.run([program, "/a b"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "connect --cwd /a b\n"


def test_the_bundle_says_what_is_missing(tmp_path: Path) -> None:
    program = tmp_path / "connect"
    program.write_text(texts.bundle_program("w.whl"))
    sh = shutil.which("sh")
    assert sh is not None
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sh, program, "/a"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Next step" in done.stderr


def test_the_manifest_asks_for_the_folder_that_the_program_gets() -> None:
    manifest = json.loads(json.dumps(texts.bundle_manifest("0.2.0", "It works.")))
    assert manifest["server"]["mcp_config"]["args"] == ["${user_config.project}"]
    assert manifest["user_config"].keys() == {"project"}


def test_a_man_page_has_the_help_as_it_is() -> None:
    page = texts.man_page(("lmtb", "calls"), HELP, "0.2.0")
    assert page.startswith(
        '.TH "LMTB\\-CALLS" 1 "" "LM Tools Bridge 0.2.0"\n.SH NAME\nlmtb\\-calls \\- Show what agents did\n'
    )
    assert "\n  .starts like a request; C:\\enew has a backslash." in page
    assert ".SH OPTIONS\n.nf\n  \\-\\-errors  Only calls that failed.\n.fi" in page
    assert ".SH FIGURES\n.nf\n  stats  Count them.\n.fi" in page


def test_no_line_of_help_becomes_a_request_of_a_man_page() -> None:
    page = texts.man_page(("lmtb",), "Usage: lmtb\n\n.SH evil\n'br\n", "0.2.0")
    assert "\n\\&.SH evil\n\\&'br\n" in page


def test_verbs_are_those_below_headings_and_no_continued_lines() -> None:
    overview = "Usage: x\n\n  About.\n\nOptions:\n  -V  Version.\n\nThe manager:\n  up     Start.\n         it\n  token  Make.\n"
    assert list(artifacts.verbs_of(overview)) == ["up", "token"]


def test_the_package_starts_its_own_program_and_only_with_the_python_that_it_was_built_for() -> None:
    unit = texts.user_unit((ROOT / "systemd/lm-tools-bridge.service").read_text())
    assert "\nExecStart=/usr/bin/lm-tools-bridge serve\n" in unit
    control = texts.debian_control("0.2.0rc1", "amd64", 7, (3, 11), "It works.")
    assert "Version: 0.2.0~rc1\n" in control, "a candidate is older than the release"
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12)\n" in control


def test_what_is_left_to_do_names_every_file_that_was_built() -> None:
    files = {"wheel": "w", "sdist": "s", "entry": "e", "notes": "n", "mcpb": "m"}
    assert texts.what_to_upload(files).split()[::1][0] == "w"
    assert all(f" {name}" in texts.what_to_upload(files) for name in ("w", "s", "e", "n", "m"))


def test_a_tree_with_changes_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts.releasing import __main__ as release

    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(artifacts, "ROOT", tmp_path)
    with pytest.raises(artifacts.BuildProblem, match="has changes"):
        release.read_notes(is_trial=False)
