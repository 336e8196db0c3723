"""Tests of the wheel that is made of the program that runs here."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from lm_tools_bridge.remote_hosts.cli import installing
from lm_tools_bridge.terminal.command_line import Failure

INFO = "lm_tools_bridge-1.2.dist-info"
OF_THE_WHEEL = {
    "manager/__init__.py": b"__version__ = '1.2'\n",
    "lm_tools_bridge/page/style.css": b"p{}",
    f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: lm-tools-bridge\nVersion: 1.2\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": b"[console_scripts]\nlmtb = manager.cli:main\n",
    f"{INFO}/licenses/LICENSE": b"MIT",
}
OF_THE_INSTALLER = {
    "../../../bin/lmtb": b"#!/venv/bin/python\n",
    "manager/__pycache__/__init__.cpython-311.pyc": b"\0",
    f"{INFO}/INSTALLER": b"uv",
    f"{INFO}/direct_url.json": b'{"url": "file:///home/ada/src"}',
    f"{INFO}/REQUESTED": b"",
}


@pytest.fixture
def installed(tmp_path: Path) -> PathDistribution:
    """An installation as installers write it."""
    packages = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    for name, content in (OF_THE_WHEEL | OF_THE_INSTALLER).items():
        file = packages / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    lines = [f"{name},,\n" for name in (*OF_THE_WHEEL, *OF_THE_INSTALLER, f"{INFO}/RECORD")]
    (packages / INFO / "RECORD").write_text("".join(lines))
    return PathDistribution(packages / INFO)


def test_an_installation_becomes_the_wheel_that_it_came_from(
    tmp_path: Path, installed: PathDistribution
) -> None:
    wheel = installing._pack(installed, tmp_path)
    assert wheel.name == "lm_tools_bridge-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    record = files.pop(f"{INFO}/RECORD").decode().splitlines()
    assert files == OF_THE_WHEEL
    assert record[-1] == f"{INFO}/RECORD,,"
    for line in record[:-1]:
        name, digest, size = line.split(",")
        expected = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={expected}", len(files[name]))


def test_nothing_of_this_machine_is_in_the_wheel(tmp_path: Path, installed: PathDistribution) -> None:
    content = installing._pack(installed, tmp_path).read_bytes()
    assert b"/home/ada" not in content
    assert b"/venv" not in content


def test_sources_that_cannot_be_built_are_told_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be built") as failure:
        installing._build(tmp_path / "none", tmp_path)
    assert "--wheels" in str(failure.value.next_step)
