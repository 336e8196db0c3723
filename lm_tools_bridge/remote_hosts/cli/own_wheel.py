"""Makes a wheel of the program that runs here, so that another host gets exactly this.

An installation is packed from its own files; sources that are used in place are built.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePath
from typing import Final

from lm_tools_bridge.machine.own_distribution import DISTRIBUTION, own_distribution
from lm_tools_bridge.terminal.command_line import Failure

_BUILD_S: Final = 300.0
"""A build may fetch its build tool first."""
_OF_INSTALLERS: Final = frozenset(
    {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
)
"""What an installer adds beside the metadata. A wheel has only RECORD of them, which is written anew."""


def make_own_wheel(folder: Path) -> Path:
    """Make the wheel of this installation in a folder, and return it. Blocks.

    Raises:
        Failure: it cannot be made.
    """
    sources = own_distribution().editable_folder
    return _pack(distribution(DISTRIBUTION), folder) if sources is None else _build(sources, folder)


def _build(sources: Path, folder: Path) -> Path:
    if uv := shutil.which("uv"):
        command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(sources)]
    else:
        options = ("--quiet", "--no-deps", "--wheel-dir", str(folder))
        command = [sys.executable, "-I", "-m", "pip", "wheel", *options, str(sources)]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_BUILD_S)
    except (OSError, subprocess.SubprocessError) as error:
        step = f"build it yourself, and name its folder: uv build --wheel {sources}; then --wheels"
        raise Failure(f"the wheel of {sources} cannot be built: {error}", step) from error
    return next(folder.glob("lm_tools_bridge-*.whl"))


def _pack(installed: Distribution, folder: Path) -> Path:
    """Write the files of an installation as a wheel (the binary distribution format, with its RECORD)."""
    info = f"lm_tools_bridge-{installed.version}.dist-info"
    wheel = folder / f"lm_tools_bridge-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(installed):
            archive.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        archive.writestr(f"{info}/RECORD", f"{''.join(record)}{info}/RECORD,,\n")
    return wheel


def _files(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    for file in installed.files or ():
        if _is_of_the_wheel(file):
            yield file.as_posix(), Path(str(installed.locate_file(file))).read_bytes()


def _is_of_the_wheel(file: PurePath) -> bool:
    """Whether a file came with the wheel: programs are made by the installer, bytecode by Python."""
    if file.parts[0] == ".." or "__pycache__" in file.parts:
        return False
    return not (file.parts[0].endswith(".dist-info") and file.name in _OF_INSTALLERS)
