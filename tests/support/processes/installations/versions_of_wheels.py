"""Builds the wheel of these sources, and of an older version of them; fetches the wheels that it needs."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Final

import manager
from support.processes.installations.wheel import ROOT, build_wheel, pip

OLD: Final = "0.0.1"
_LEFT_OUT: Final = (".*", "tests", "scripts", "__pycache__", "*.png", "*.svg")


def needed_wheels(wheel: Path, folder: Path) -> None:
    """Fetch everything that the wheel needs to serve lines, from the package index."""
    pip("download", "--dest", str(folder), str(wheel))


def old_wheel(folder: Path) -> Path:
    """The wheel of an older version, which speaks another protocol over lines."""
    sources = folder / "old-sources"
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    _replace(sources / "manager" / "__init__.py", manager.__version__, OLD)
    _replace(
        sources / "lm_tools_bridge" / "remote_hosts" / "tunnel" / "greeting.py",
        "PROTOCOL: Final = 1",
        "PROTOCOL: Final = 0",
    )
    return build_wheel(folder / "old", sources)


def newer_wheel(folder: Path) -> Path:
    """A wheel of the same name and a later version that somebody else put on an index: it does nothing."""
    folder.mkdir(parents=True)
    wheel = folder / "lm_tools_bridge-999.0-py3-none-any.whl"
    info = "lm_tools_bridge-999.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: lm-tools-bridge\nVersion: 999.0\nProvides-Extra: remote\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, file
    file.write_text(text.replace(old, new))
