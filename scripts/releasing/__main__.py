"""Makes a release: `scripts/release`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Final

import manager
from scripts.releasing import artifacts
from scripts.releasing import release_texts as texts

FOLDER: Final = artifacts.ROOT / "dist/release"


def main() -> int:
    """Make it, or say what is in the way; the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/release")
    parser.add_argument("--try", dest="is_trial", action="store_true", help="from any tree, of any version")
    parser.add_argument(
        "--namespace", default="io.github.OWNER", help="who publishes: that of the MCP registry"
    )
    options = parser.parse_args()
    try:
        notes = read_notes(is_trial=options.is_trial)
        files = make_release(FOLDER, notes, options.namespace)
    except artifacts.BuildProblem as problem:
        print(f"No release was made: {problem}", file=sys.stderr)
        return 1
    print(f"\nEverything is in {FOLDER}. Nothing was uploaded. Upload, in this order:")
    print(texts.what_to_upload({kind: file.name for kind, file in files.items()}))
    return 0


def read_notes(*, is_trial: bool) -> str:
    """The notes of this version.

    Raises:
        BuildProblem: the tree has changes, or the changelog has no section of this version with a date.
    """
    version, changelog = manager.__version__, (artifacts.ROOT / "CHANGELOG.md").read_text("utf-8")
    if is_trial:
        return texts.release_notes(changelog, version) or texts.unreleased_notes(changelog)
    if changes := artifacts.run("git", "status", "--porcelain", cwd=artifacts.ROOT):
        raise artifacts.BuildProblem(f"the tree has changes, so nobody could build this again:\n{changes}")
    notes = texts.release_notes(changelog, version)
    if notes is None or texts.unreleased_notes(changelog):
        raise artifacts.BuildProblem(
            f"CHANGELOG.md has no dated section of {version}, or things under Unreleased. "
            "Next step: set __version__ in manager/__init__.py, "
            "and rename the section to `## [VERSION] - YYYY-MM-DD`"
        )
    return notes


def make_release(folder: Path, notes: str, namespace: str) -> dict[str, Path]:
    """Build and check all files into a folder that is emptied first; returns them by what they are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.umask(0o022)  # files of packages are readable for all
    version = manager.__version__
    summary = tomllib.loads((artifacts.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["description"]
    entry, notes_file = folder / "server.json", folder / "NOTES.md"
    notes_file.write_text(f"{notes}\n")
    entry.write_text(json.dumps(texts.registry_entry(namespace, version, summary), indent=2) + "\n")
    _say("wheel and sdist")
    wheel, sdist = artifacts.build_python(folder)
    _say("wheel: install and run")
    artifacts.check_wheel(wheel, version)
    _say("bundle: build, unpack and run")
    bundle = artifacts.build_bundle(folder, wheel, version, summary)
    artifacts.check_bundle(bundle, Path(sys.executable).with_name("lmtb"))
    files = {"wheel": wheel, "sdist": sdist, "mcpb": bundle, "entry": entry, "notes": notes_file}
    if shutil.which("dpkg-deb") is None:
        print("No .deb is built: dpkg-deb is not installed.")
        return files
    _say("Debian package: build, install and run")
    package = artifacts.build_deb(folder, wheel, version, summary)
    artifacts.check_deb(package, version)
    return {**files, "deb": package}


def _say(step: str) -> None:
    print(f"== {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
