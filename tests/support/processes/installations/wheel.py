"""Builds the wheel of these sources, without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import manager

ROOT = Path(manager.__file__).parents[1]
BUILD_S = 120


def pip(*arguments: str) -> None:
    """Run pip of this environment."""
    command = [sys.executable, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr


def build_wheel(folder: Path, sources: Path = ROOT) -> Path:
    """Build the wheel of these or other sources into a folder that has none yet."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources))
    (wheel,) = folder.glob("*.whl")
    return wheel
