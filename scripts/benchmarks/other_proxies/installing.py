"""Installs other MCP proxies into `.bench/`, each into its own folder, unless they are installed already.

It runs no scripts of npm packages and installs nothing outside that folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.benchmarks.other_proxies.peer import Peer
from scripts.benchmarks.plan import RESULTS

INSTALL_S = 240
NPM = (
    "npm",
    "install",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--ignore-scripts",
    "--loglevel",
    "error",
)


class NotInstallable(Exception):
    """The proxy cannot be installed on this machine; the message is the reason."""


def installed(peer: Peer) -> Path:
    """Install a proxy if necessary and return its folder.

    Raises:
        NotInstallable: the installation failed.
    """
    folder = RESULTS / "peers" / peer.package.split("@")[0].split("=")[0].split(">")[0] / peer.registry
    marker, wanted = folder / ".installed", f"{peer.package} {sys.version}"
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in commands(peer, folder):
            _run(command)
        marker.write_text(wanted)
    for name, text in (peer.files or {}).items():
        (folder / name).write_text(text)
    return folder


def commands(peer: Peer, folder: Path) -> list[list[str]]:
    """The commands that install a proxy into a folder."""
    if peer.registry == "npm":
        return [[*NPM, "--prefix", str(folder), peer.package]]
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    return [
        [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)],
        [*pip, "--quiet", "--disable-pip-version-check", peer.package],
    ]


def _run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise NotInstallable(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"was not installed within {INSTALL_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise NotInstallable(f"not installed: {lines[-1][:200]}")


def version(peer: Peer, folder: Path) -> str:
    """The installed version of a proxy."""
    name = peer.package.split("@")[0].split("=")[0].split(">")[0]
    if peer.registry == "npm":
        return str(json.loads((folder / "node_modules" / name / "package.json").read_text())["version"])
    found = sorted(folder.glob(f"lib/python3*/site-packages/{name.replace('-', '_')}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else "unknown"
