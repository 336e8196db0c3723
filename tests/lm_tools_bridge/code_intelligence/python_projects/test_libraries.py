"""What a project imports of libraries, and what is said where these cannot be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.python_projects.libraries import (
    imported_libraries,
    missing_environment,
    without_unresolved,
)
from lm_tools_bridge.code_intelligence.server import FileDiagnostics
from support.projects.file_tree import write_tree

FILES: dict[str, str | bytes] = {
    "src/shop/__init__.py": "from __future__ import annotations\nimport os, click.core as c , rich\n",
    "src/shop/data.py": "from . import x\nfrom .y import z\nfrom shop.data import w\nimport shop\n",
    "tests/test_data.py": "try:\n    import pytest\nexcept ImportError:\n    pass\nfrom conftest import a\n",
    "tests/conftest.py": "text = '''\nsome words import nothing\n'''\nimportant = 1\n",
    "old.py": b"# \xe9\nimport yaml\n",
}


def test_neither_the_projects_modules_nor_those_of_python_are_libraries(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "rich", FILES)
    files = sorted(root.rglob("*.py"))
    assert imported_libraries(files, root) == {"click", "rich", "pytest", "yaml"}
    (root / "old.py").unlink()
    assert imported_libraries(files, root) == {"click", "rich", "pytest"}


def test_a_project_that_needs_no_library_lacks_nothing() -> None:
    assert missing_environment(frozenset()) == ""
    said = missing_environment({"rich", "click", "attr", "Yaml"})
    assert said.startswith(
        "no environment: imports of libraries are not checked (attr, click, rich and 1 more); "
        "`python3 -m venv .venv` makes it"
    )


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pyproject.toml": "", "uv.lock": ""}, "uv sync"),
        ({"pyproject.toml": "", "poetry.lock": ""}, "poetry install"),
        ({"requirements.txt": ""}, "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"),
        ({"setup.py": ""}, "python3 -m venv .venv && .venv/bin/pip install -e ."),
    ],
)
def test_the_command_is_that_of_the_projects_tool(
    tmp_path: Path, files: dict[str, str], command: str
) -> None:
    assert f"`{command}` makes it" in missing_environment({"click"}, write_tree(tmp_path, files))


@pytest.mark.parametrize(
    ("code", "message", "stays"),
    [
        ("import-not-found", "Cannot resolve imported module `click.core`\n\ninfo: ...", False),
        ("reportMissingImports", 'Import "click.core" could not be resolved', False),
        ("reportMissingModuleSource", 'Import "click" could not be resolved from source', False),
        ("import-not-found", "Cannot resolve imported module `shop.gone`", True),
        ("reportMissingImports", 'Import "clicks" could not be resolved', True),
        ("invalid-assignment", "Object of type `click` is not assignable", True),
        (None, "`click`", True),
    ],
)
def test_only_imports_of_libraries_are_left_out(code: str | None, message: str, stays: bool) -> None:
    diagnostic: dict[str, Any] = {"code": code, "message": message}
    (file,) = without_unresolved([FileDiagnostics(Path("/a.py"), None, [diagnostic])], {"click"})
    assert bool(file.diagnostics) is stays
