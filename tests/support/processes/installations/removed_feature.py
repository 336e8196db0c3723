"""Makes installations without one feature or without the fast path: its folder and its lines are gone."""

from __future__ import annotations

import re
import site
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import lm_tools_bridge
import manager.features
import workspace_server.features

PACKAGES = Path(lm_tools_bridge.__file__).parents[1]
FEATURES = sorted(
    {feature.name for feature in (*manager.features.FEATURES, *workspace_server.features.FEATURES)}
)
_TABLES = ("manager/features.py", "workspace_server/features.py")
_LINE = r'^    Feature\(\s*"{}".*?\n(?=    Feature\(|\)$)'


FAST_PATH = Path("manager/route_cache")
_FAST_PATH_LINES = (
    (r"^from manager\.route_cache\.\w+ import [^\n]*\n", ""),
    (r"^    return CachedPath\((?:\n        [^\n]*)*\n    \)$", "    return None"),
)


def install_without(feature: str, folder: Path) -> Path:
    """The interpreter of an installation in this folder; what stays is linked, not copied."""
    edits = [(_LINE.format(feature), "")]
    return _install(folder, Path("lm_tools_bridge") / feature, dict.fromkeys(_TABLES, edits))


def install_without_fast_path(folder: Path) -> Path:
    """The interpreter of an installation whose manager has no fast path of calls: every call takes the general way.

    Raises:
        AssertionError: a line of the fast path is not where it was.
    """
    assembly = "manager/assembly.py"
    python = _install(folder, FAST_PATH, {assembly: _FAST_PATH_LINES})
    text = (folder / "packages" / assembly).read_text("utf-8")
    assert "CachedPath" not in text.replace("`CachedPath`", "")
    return python


def _install(folder: Path, left_out: Path, edits: Mapping[str, Iterable[tuple[str, str]]]) -> Path:
    """Install all but one folder, with these replacements in the texts of these files."""
    packages = folder / "packages"
    for package in ("lm_tools_bridge", "manager", "workspace_server"):
        (packages / package).mkdir(parents=True)
        for child in (PACKAGES / package).iterdir():
            if child.name != "__pycache__" and Path(package, child.name) != left_out:
                (packages / package / child.name).symlink_to(child)
    for file, replacements in edits.items():
        text = (PACKAGES / file).read_text("utf-8")
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
        (packages / file).unlink()
        (packages / file).write_text(text, "utf-8")
    return _interpreter(packages, folder / "venv")


def _interpreter(packages: Path, folder: Path) -> Path:
    """A virtual environment with these packages before the libraries of this one.

    The `.pth` files of this one are not read again, so that its own packages are not found.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    libraries = folder / "lib" / version / "site-packages"
    libraries.mkdir(parents=True)
    (libraries / "packages.pth").write_text("\n".join([str(packages), *site.getsitepackages()]))
    base = Path(sys.base_prefix) / "bin"
    (folder / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(base / version)
    return python
