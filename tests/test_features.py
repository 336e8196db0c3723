"""Each feature can be removed: its folder and its line. All else is imported, starts and works without it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.installations.removed_feature import FEATURES, PACKAGES, install_without
from support.processes.managers.manager_process import environment, lmtb, running_manager

OURS = ("lm_tools_bridge", "manager", "workspace_server")
IMPORTS = """
import importlib, json, os, sys
OURS = ("lm_tools_bridge", "manager", "workspace_server")
def import_all(removed, root):
    sys.path.insert(0, root)
    for folder, folders, files in os.walk(root, followlinks=True):
        # scripts load what is in `library`; a folder that is named for another feature is a part of both
        folders[:] = [name for name in folders if name not in ("library", "__pycache__", removed)]
        for file in files:
            name, ending = os.path.splitext(os.path.join(os.path.relpath(folder, root), file))
            if ending == ".py" and not file.startswith("__"):
                importlib.import_module(name.replace(os.sep, "."))
    import manager.cli.verbs, workspace_server.features
    manager.cli.verbs.lines_of_verbs(), workspace_server.features.parts()
    ours = [name for name in sys.modules if name.partition(".")[0] in OURS]
    strange = [name for name in ours if not sys.modules[name].__file__.startswith(root)]
    assert len(ours) > 500 and not strange, (len(ours), strange)
for name in json.loads(sys.argv[1]):  # the libraries once, for all
    try:
        importlib.import_module(name)
    except Exception:
        pass
failed = []
for removed, root in json.loads(sys.argv[2]).items():
    pid = os.fork()
    if pid == 0:
        try:
            import_all(removed, root)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        failed.append(removed)
print(json.dumps(failed))
"""


def libraries() -> list[str]:
    """The modules of others that a part of this program imports."""
    program = (
        "import importlib, pkgutil, sys\n"
        f"for package in map(importlib.import_module, {OURS!r}):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not found.name.endswith('__main__') and '.library' not in found.name:\n"
        "            importlib.import_module(found.name)\n"
        f"print(*(name for name in sys.modules if name.partition('.')[0] not in {OURS!r}))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [name for name in ended.stdout.split() if name != "__main__"]


@pytest.mark.timeout(180)
def test_all_else_is_imported_without_a_feature(tmp_path: Path) -> None:
    """In a process for each feature, which are all forks of one that has the libraries."""
    pythons = {feature: install_without(feature, tmp_path / feature) for feature in FEATURES}
    roots = {feature: str(tmp_path / feature / "packages") for feature in FEATURES}
    bare = pythons[FEATURES[0]]
    (paths,) = bare.parents[1].rglob("packages.pth")
    paths.write_text("\n".join(paths.read_text().splitlines()[1:]))  # the libraries alone
    command = [str(bare), "-I", "-c", IMPORTS, json.dumps(libraries()), json.dumps(roots)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr


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
