"""Language servers are installed into a folder of ours by their digests, and found there at once."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.available_kinds import available_kinds
from lm_tools_bridge.code_intelligence.kinds.candidates import Candidate
from lm_tools_bridge.code_intelligence.kinds.installation import (
    Installation,
    select_missing,
    select_named,
)
from lm_tools_bridge.code_intelligence.kinds.installed_servers import InstalledServers
from lm_tools_bridge.code_intelligence.kinds.package_managers import InstallError, Runner
from lm_tools_bridge.code_intelligence.kinds.python import PYRIGHT, TY
from lm_tools_bridge.code_intelligence.kinds.table import KINDS

NPM = """#!/bin/sh
test -e node_modules && exit 9
case "$1" in
install) echo '{"packages": {"node_modules/pyright": {"version": "1.0", "integrity": "sha512-a="}}}' > package-lock.json ;;
ci) grep -q sha512-a= package-lock.json && mkdir -p node_modules/.bin &&
  cp /bin/sh node_modules/.bin/pyright-langserver ;;
esac
echo "$@" > "$SEEN"
pwd >> "$SEEN.folders"
"""


def wheel(folder: Path, version: str, text: str = "") -> None:
    """A wheel of `ty` whose program prints its version."""
    program = f"#!/bin/sh\necho ty {version} {text}\n".encode()
    files = {
        f"ty-{version}.data/scripts/ty": program,
        f"ty-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: ty\nVersion: {version}\n".encode(),
        f"ty-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},"
        for name, content in files.items()
    ]
    files[f"ty-{version}.dist-info/RECORD"] = "\n".join([*rows, ""]).encode()
    with zipfile.ZipFile(folder / f"ty-{version}-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o100755 << 16
            archive.writestr(info, content)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of wheels."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "1.0")
    return folder


@pytest.fixture
def installation(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    programs = tmp_path / "programs"
    programs.mkdir()
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}
    variables |= {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "SEEN": str(tmp_path / "seen"),
    }
    return Installation(InstalledServers.of_user(), Runner(variables))


def test_a_package_that_changes_after_the_question_is_not_installed(
    installation: Installation, index: Path
) -> None:
    plan = installation.plan(TY)
    wheel(index, "1.0", "changed")
    with pytest.raises(InstallError, match="HASHES"):
        installation.carry_out(plan)
    assert not installation.is_there(TY)
    assert not list(installation.servers.folder_of("ty").iterdir())


def test_a_server_is_found_as_soon_as_it_is_installed_and_an_update_replaces_the_one_that_runs(
    installation: Installation, index: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    kinds = available_kinds(project, (), str(tmp_path / "nothing"))
    assert not isinstance(kinds.locate(TY), Candidate)
    installed = installation.carry_out(installation.plan(TY))
    place, before = kinds.locate(TY), kinds.find(TY)
    assert isinstance(place, Candidate)
    assert (place.program.origin, place.needs_trust) == ("installed", False)
    assert (installed.version, installation.is_there(TY)) == ("1.0", True)
    wheel(index, "1.1")
    plan = installation.plan(TY)
    assert (plan.is_current, plan.version) == (False, "1.1")
    installation.carry_out(plan)
    assert kinds.find(TY) != before
    folders = [path.name for path in installation.servers.folder_of("ty").iterdir() if path.is_dir()]
    assert [name.partition("-")[0] for name in folders] == ["1.1"]


@pytest.fixture
def npm(tmp_path: Path, installation: Installation) -> Installation:
    """An installation whose npm has one package."""
    program = tmp_path / "programs" / "npm"
    program.write_text(NPM)
    program.chmod(0o755)
    return installation


def test_a_removed_server_leaves_nothing(npm: Installation) -> None:
    npm.carry_out(npm.plan(PYRIGHT))
    assert npm.plan(PYRIGHT).is_current
    (record,) = npm.servers.read_all()
    npm.remove(record)
    assert not list(npm.servers.read_all())
    kept = ("bin", "servers", "lock")
    assert not [path for path in npm.servers.folder.rglob("*") if path.name not in kept]


def test_npm_runs_no_script_of_a_package_and_installs_by_its_lock(npm: Installation, tmp_path: Path) -> None:
    plan = npm.plan(PYRIGHT)
    assert "--ignore-scripts" in (tmp_path / "seen").read_text()
    npm.carry_out(plan)
    assert (tmp_path / "seen").read_text().split()[:2] == ["ci", "--ignore-scripts"]
    (record,) = npm.servers.read_all()
    assert record.artifacts[0].digests == ("sha512-a=",)


def test_the_registries_programs_run_in_a_folder_of_ours(
    npm: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    npm.carry_out(npm.plan(PYRIGHT))
    for folder in (tmp_path / "seen.folders").read_text().splitlines():
        assert not Path(folder).is_relative_to(project)
        assert Path(folder).is_relative_to(npm.servers.folder), "other users write into folders above"


def test_a_folder_of_ours_that_cannot_be_used_is_told(npm: Installation) -> None:
    npm.servers.folder.parent.mkdir(parents=True)
    npm.servers.folder.write_text("a file")
    with pytest.raises(InstallError, match=str(npm.servers.folder)):
        npm.plan(PYRIGHT)


def test_a_record_that_somebody_changed_leads_nowhere(npm: Installation) -> None:
    npm.carry_out(npm.plan(PYRIGHT))
    file = npm.servers.folder_of("pyright") / "installed.json"
    content = json.loads(file.read_text())
    for folder in ("../..", "..", 7 * "/x"):
        file.write_text(json.dumps({**content, "folder": folder}))
        assert npm.servers.read_record("pyright") is None


def row(server: str, language: str, state: str, install: str | None) -> dict[str, object]:
    return {"server": server, "languages": [language], "state": state, "install": install, "reason": "get it"}


def test_only_what_the_project_lacks_is_installed() -> None:
    rows = [row("ty", "python", "installed", None), row("ruff", "python", "missing", "ruff")]
    rows += [row("zls", "zig", "missing", None)]
    selection = select_missing(rows)
    assert [kind.name for kind in selection.kinds] == ["ruff"]
    assert selection.by_hand == ["zls: get it"]


@pytest.mark.parametrize(
    ("word", "servers"),
    [
        ("python", ["ty", "ruff"]),
        ("ts", ["typescript"]),
        ("c++", ["clangd"]),
        ("vtsls", ["vtsls"]),
        ("rust", ["rust-analyzer"]),
        ("yaml", ["yaml"]),
    ],
)
def test_a_language_stands_for_its_usual_servers(word: str, servers: list[str]) -> None:
    assert [kind.name for kind in select_named([word], []).kinds] == servers


def test_of_a_language_of_the_project_those_that_it_lacks_are_meant() -> None:
    rows = [row("basedpyright", "python", "missing", "basedpyright")]
    assert [kind.name for kind in select_named(["python"], rows).kinds] == ["basedpyright"]


def test_an_unknown_word_is_told() -> None:
    assert select_named(["cobol"], []).unknown == ["cobol"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_no_hint_names_a_package_to_install_globally(kind: object) -> None:
    """A hint leads to our own verb, which shows from where and asks, or to the makers."""
    step = getattr(kind, "install_step")  # noqa: B009  any kind
    assert not any(
        words in step for words in ("pip install", "npm install --global", "go install", "lm-tools-bridge[")
    )
