"""Every server for Python gets the environment of the project, or says that there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from lm_tools_bridge.code_intelligence.python_projects.environments import (
    EnvironmentFinder,
    PythonEnvironment,
)
from lm_tools_bridge.code_intelligence.python_projects.setup import (
    LOOK_AGAIN_S,
    NO_LIBRARIES,
    PythonSetup,
    libraries_for_mypy,
    variables_with,
)
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from support.projects.file_tree import write_tree

WITH = {".venv/pyvenv.cfg": "home = /usr/bin\n", ".venv/lib/python3.12/site-packages/": ""}
LIBRARY = {"a.py": "import click\n"}


def given(root: Path, name: str) -> ServerSpecification:
    return applied(PythonSetup([root], EnvironmentFinder([root], dict)), name)


def applied(setup: PythonSetup, name: str = "ty") -> ServerSpecification:
    setup.look()
    return setup.apply_to(KINDS[name])


def named(kind: ServerSpecification) -> Any:
    """The environment that a kind is told."""
    if kind.name == "ty":
        assert kind.settings["ty"]["configuration"] == kind.options["configuration"]
        return kind.options["configuration"].get("environment", {}).get("python")
    return kind.settings["python"].get("pythonPath")


@pytest.mark.parametrize("name", ["ty", "pyright", "basedpyright", "pyrefly"])
def test_each_server_is_told_the_environment(tmp_path: Path, name: str) -> None:
    kind = given(write_tree(tmp_path, {**WITH, **LIBRARY}), name)
    ending = "" if name == "ty" else "/bin/python"
    assert named(kind) == f"{tmp_path}/.venv{ending}"
    assert kind.doubt == ""
    assert kind.unknown_modules == frozenset()
    assert f"{tmp_path}/.venv/lib/python3.12/site-packages" in kind.libraries
    assert kind.reads == (tmp_path / ".venv",)


@pytest.mark.parametrize("name", ["ty", "pyright", "basedpyright", "pyrefly"])
def test_without_one_each_server_says_so(tmp_path: Path, name: str) -> None:
    kind = given(write_tree(tmp_path, LIBRARY), name)
    assert named(kind) == (str(NO_LIBRARIES) if name == "ty" else None)
    assert kind.doubt.startswith("no environment: imports of libraries are not checked (click)")
    assert kind.unknown_modules == {"click"}
    assert given(write_tree(tmp_path, {"a.py": "import os\n"}), name).doubt == ""


def test_the_environment_without_libraries_has_none() -> None:
    assert (NO_LIBRARIES / "pyvenv.cfg").is_file()
    assert [path.suffix for path in NO_LIBRARIES.glob("lib/python3*/site-packages/*")] == [".txt"]


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("ty", "ty.toml", "[environment]\npython = 'env'\n"),
        ("ty", "pyproject.toml", "[tool.ty.environment]\npython = 'env'\n"),
        ("pyright", "pyrightconfig.json", '{"venvPath": ".", "venv": "env", /* */ }'),
        ("basedpyright", "pyproject.toml", "[tool.basedpyright]\nvenv = 'env'\n"),
    ],
)
def test_what_the_tool_is_told_by_the_project_stays(tmp_path: Path, name: str, file: str, text: str) -> None:
    kind = given(write_tree(tmp_path, {**LIBRARY, file: text}), name)
    settings = kind.options if name == "ty" else kind.settings["python"]
    assert "configuration" not in settings and "pythonPath" not in settings
    assert kind.doubt == ""


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("pyright", "pyproject.toml", '[tool.pyright]\ninclude = ["src"]\n'),
        ("basedpyright", "pyrightconfig.json", '{"include": ["src"], // comment\n}'),
        ("pyright", "pyrightconfig.json", '{"exclude": ["tests"]}'),
    ],
)
def test_what_a_tool_reports_about_is_less_than_where_uses_are(
    tmp_path: Path, name: str, file: str, text: str
) -> None:
    kind = given(write_tree(tmp_path, {file: text}), name)
    assert kind.needs_named_files
    assert kind.checked_files is not None
    assert kind.checked_files.has(tmp_path / "src/a.py")
    assert not kind.checked_files.has(tmp_path / "tests/a.py")


def test_ty_reads_all_files_and_reports_about_those_that_it_is_told(tmp_path: Path) -> None:
    kind = given(write_tree(tmp_path, {"ty.toml": "[src]\ninclude = ['src']\n"}), "ty")
    assert kind.options["configuration"]["src"] == {"include": ["**"]}
    assert kind.checked_files is not None
    assert not kind.checked_files.has(tmp_path / "tests/a.py")
    excluding = given(write_tree(tmp_path, {"ty.toml": "[src]\nexclude = ['tests']\n"}), "ty")
    assert "excludes files" in excluding.doubt


def test_a_project_without_configuration_is_checked_whole(tmp_path: Path) -> None:
    kind = given(tmp_path, "pyright")
    assert not kind.needs_named_files
    assert kind.checked_files is not None
    assert kind.checked_files.has(tmp_path / "tests/a.py")
    assert not kind.checked_files.has(tmp_path / ".tox/a.py")


def test_a_kind_is_the_same_until_something_changes(tmp_path: Path) -> None:
    now = 100.0
    setup = PythonSetup([tmp_path], EnvironmentFinder([tmp_path], dict), clock=lambda: now)
    first = applied(setup)
    assert applied(setup) is first
    assert setup.is_current
    write_tree(tmp_path, LIBRARY)
    now += LOOK_AGAIN_S
    assert not setup.is_current
    assert "click" in applied(setup).doubt
    write_tree(tmp_path, WITH)
    assert applied(setup).doubt == ""
    assert applied(setup, "ruff") is KINDS["ruff"]


def test_programs_find_the_environment_and_never_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "ours/bin"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "ours"))
    search = f"{tmp_path}/ours/bin:/usr/bin"
    assert variables_with(None, search) == {"PATH": "/usr/bin"}
    environment = PythonEnvironment(tmp_path / "env", ".venv", ())
    assert variables_with(environment, search) == {
        "PATH": f"{tmp_path}/env/bin:/usr/bin",
        "VIRTUAL_ENV": f"{tmp_path}/env",
    }


def test_mypy_looks_for_libraries_in_the_environment(tmp_path: Path) -> None:
    environment = PythonEnvironment(tmp_path / ".venv", ".venv", ())
    elsewhere = Path("/usr/bin/mypy")
    assert libraries_for_mypy(None, elsewhere, tmp_path) == ("--no-site-packages",)
    assert libraries_for_mypy(environment, elsewhere, tmp_path) == (
        "--python-executable",
        f"{tmp_path}/.venv/bin/python",
    )
    assert libraries_for_mypy(environment, tmp_path / ".venv/bin/mypy", tmp_path) == ()
    (tmp_path / "mypy.ini").write_text("[mypy]\npython_executable = env/bin/python\n")
    assert libraries_for_mypy(environment, elsewhere, tmp_path) == ()
