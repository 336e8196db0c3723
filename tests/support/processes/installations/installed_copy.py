"""A copy of this program in a virtual environment of its own, which tests upgrade, break and remove."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import manager

ROOT = Path(manager.__file__).parents[1]
PACKAGES = ("lm_tools_bridge", "manager", "workspace_server")


class InstalledCopy:
    """The program as an installer leaves it, beside the libraries of the tests.

    Attributes:
        python: the interpreter that runs it.
        site: the folder with its packages.
    """

    def __init__(self, folder: Path, version: str) -> None:
        subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python3*/site-packages")
        (self.site / "libraries_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.install(version)

    def install(self, version: str) -> None:
        """Replace what is installed by this version of the program."""
        self.remove()
        for package in PACKAGES:
            shutil.copytree(ROOT / package, self.site / package)  # with bytecode, which saves seconds
        module = self.site / "manager" / "__init__.py"
        text = module.read_text()
        assert manager.__version__ in text
        module.write_text(text.replace(manager.__version__, version))
        record = self.site / f"lm_tools_bridge-{version}.dist-info"
        record.mkdir()
        (record / "RECORD").write_text("manager/__init__.py,,\n")
        (record / "METADATA").write_text(f"Name: lm-tools-bridge\nVersion: {version}\n")

    def remove(self) -> None:
        """Uninstall it."""
        for folder in (*(self.site / package for package in PACKAGES), *self.site.glob("lm_tools_bridge-*")):
            shutil.rmtree(folder, ignore_errors=True)
