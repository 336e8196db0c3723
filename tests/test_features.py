"""Each feature can be removed: its folder and its line. All else is imported, starts and works without it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.processes.installations.removed_feature import FEATURES, PACKAGES, install_without
from support.processes.managers.manager_process import environment, lmtb, running_manager

IMPORTS = """
import importlib, os, sys
removed, root = sys.argv[1:]
for folder, folders, files in os.walk(root, followlinks=True):
    # scripts load what is in `library`; a folder that is named for another feature is a part of both
    folders[:] = [name for name in folders if name not in ("library", "__pycache__", removed)]
    for file in files:
        name, ending = os.path.splitext(os.path.join(os.path.relpath(folder, root), file))
        if ending == ".py" and not file.startswith("__"):
            importlib.import_module(name.replace(os.sep, "."))
import manager.cli.verbs, workspace_server.features
manager.cli.verbs.lines_of_verbs(), workspace_server.features.parts()
strange = [name for name, module in sys.modules.items()
           if name.partition(".")[0] in ("lm_tools_bridge", "manager", "workspace_server")
           and not str(module.__file__).startswith(root)]
print(len(sys.modules), strange)
"""


@pytest.mark.parametrize("feature", FEATURES)
def test_all_else_is_imported_without_a_feature(feature: str, tmp_path: Path) -> None:
    python = install_without(feature, tmp_path)
    command = [str(python), "-I", "-c", IMPORTS, feature, str(tmp_path / "packages")]
    imported = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.split()[1] == "[]"


def test_every_feature_has_a_line_and_every_line_a_feature() -> None:
    folders = {file.parent.name for file in (PACKAGES / "lm_tools_bridge").glob("*/feature.py")}
    folders |= {file.parent.name for file in (PACKAGES / "lm_tools_bridge").glob("*/workspace_part.py")}
    assert folders == set(FEATURES)


@pytest.mark.processes
@pytest.mark.timeout(180)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_manager_works_without_a_feature(feature: str, tmp_path: Path) -> None:
    python = str(install_without(feature, tmp_path))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    overview = lmtb(environment(tmp_path), "--help", python=python)
    assert overview.returncode == 0, overview.stderr
    with running_manager(tmp_path, python=python) as manager:
        listed = json.loads(manager.lmtb("tools", "--cwd", str(project), "--json").stdout)
        assert "calculator" in {tool["name"] for tool in listed["tools"]}
        call = ["call", "calculator", json.dumps({"expression": "6 * 7"}), "--cwd", str(project)]
        called = manager.lmtb(*call)
        assert called.returncode == 0, called.stderr
        assert "42" in called.stdout
        assert manager.lmtb("status").returncode == 0
