"""Makes an installation without one feature: its folder and its line in the tables of features are gone."""

from __future__ import annotations

import re
import site
import sys
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


def install_without(feature: str, folder: Path) -> Path:
    """The interpreter of an installation in this folder; what stays is linked, not copied."""
    packages = folder / "packages"
    for package in ("lm_tools_bridge", "manager", "workspace_server"):
        (packages / package).mkdir(parents=True)
        for child in (PACKAGES / package).iterdir():
            is_left_out = package == "lm_tools_bridge" and child.name == feature
            if child.name != "__pycache__" and not is_left_out:
                (packages / package / child.name).symlink_to(child)
    for table in _TABLES:
        text = (PACKAGES / table).read_text("utf-8")
        (packages / table).unlink()
        (packages / table).write_text(re.sub(_LINE.format(feature), "", text, flags=re.MULTILINE | re.DOTALL))
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
