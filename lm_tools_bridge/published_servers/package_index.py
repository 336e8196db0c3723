"""Asks npm and uv, as the user configured them, for the newest version of a package. Blocks.

They run in an empty folder: `.npmrc`, `pyproject.toml` and the like of a project would else decide where the
package comes from. Nothing of the package is run; uv is told to build nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.published_servers.server_names import PackageName, Refusal, package_of
from lm_tools_bridge.text.printable import printable

# Longest wait: npm asks anew three times where the network is slow.
_ANSWER_S: Final = 60.0
# The fields that are asked for have a few kilobytes.
_MAX_OUTPUT: Final = 1024 * 1024
_FIELDS: Final = ("name", "version", "mcpName", "_npmUser", "maintainers", "deprecated")


@dataclass(frozen=True, slots=True)
class PublishedPackage:
    """A package of an index, at one version.

    Attributes:
        publisher: who published this version, as the index says; empty where it does not.
        server_name: the name in registries that the package itself claims.
        warning: why its publisher advises against it.
    """

    package: PackageName
    publisher: str = ""
    server_name: str = ""
    warning: str = ""


def look_up(package: PackageName) -> PublishedPackage | Refusal:
    """The package at its version, or at the newest."""
    return _look_up_npm(package) if package.index == "npm" else _look_up_pypi(package)


def _look_up_npm(package: PackageName) -> PublishedPackage | Refusal:
    spec = package.pinned if package.version else package.name
    words = ("npm", "view", "--json", "--loglevel=error", "--", spec, *_FIELDS)
    output = _run(words, package, b"")
    if isinstance(output, Refusal):
        return output
    try:
        members = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        members = None
    if not isinstance(members, dict):
        return _unknown(package, "npm answers nothing that can be read")
    published = _same_package(package, _text(members, "name"), _text(members, "version"))
    if isinstance(published, Refusal):
        return published
    return PublishedPackage(
        published, _publisher(members), _text(members, "mcpName"), _text(members, "deprecated")
    )


def _look_up_pypi(package: PackageName) -> PublishedPackage | Refusal:
    words = (
        "uv", "pip", "compile", "--quiet", "--no-deps", "--no-build", "--no-header", "--no-annotate",
        "--no-python-downloads", "-",
    )  # fmt: skip
    requirement = f"{package.name}=={package.version}" if package.version else package.name
    output = _run(words, package, requirement.encode())
    if isinstance(output, Refusal):
        return output
    name, _, version = output.decode("utf-8", "replace").strip().partition("==")
    published = _same_package(package, name, version)
    return published if isinstance(published, Refusal) else PublishedPackage(published)


def _same_package(package: PackageName, name: str, version: str) -> PackageName | Refusal:
    """The package with the version of an answer, which may be about nothing else."""
    if _plain(name) != _plain(package.name) or (package.version and version != package.version):
        return _unknown(package, f"the index answers about {printable(f'{name} {version}', width=80)}")
    exact = package_of(package.index, package.name, version)
    return exact if isinstance(exact, Refusal) or exact.version else _unknown(package, "no version is told")


def _plain(name: str) -> str:
    """A name as PyPI compares it; names of npm that differ in this are refused by npm itself."""
    return name.lower().replace("_", "-").replace(".", "-")


def _publisher(members: dict[str, Any]) -> str:
    """Who published this version; where npm does not say it, who may publish the next."""
    maintainers = members.get("maintainers")
    people = [members.get("_npmUser"), *(maintainers if isinstance(maintainers, list) else [])]
    names = [person.get("name") if isinstance(person, dict) else person for person in people]
    return next((name for name in names if isinstance(name, str) and name), "")


def _text(members: dict[str, Any], key: str) -> str:
    value = members.get(key)
    return value if isinstance(value, str) else ""


def _run(words: Sequence[str], package: PackageName, question: bytes) -> bytes | Refusal:
    program = shutil.which(words[0])
    if program is None:
        text = f"{words[0]} is not on your PATH, and packages of {package.index} are started by it"
        return Refusal("program_missing", text, f"install {words[0]}, then repeat the command")
    with tempfile.TemporaryDirectory(prefix="lmtb-") as folder:
        try:
            ended = subprocess.run(
                [program, *words[1:]],
                input=question,
                capture_output=True,
                cwd=folder,
                timeout=_ANSWER_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _unknown(package, f"{words[0]} did not answer within {_ANSWER_S:.0f} s")
        except OSError as error:
            return _unknown(package, f"{words[0]} cannot be run: {error.strerror or error}")
    if ended.returncode or len(ended.stdout) > _MAX_OUTPUT:
        return _unknown(package, f"{words[0]} says: {_reason(ended.stderr)}")
    return ended.stdout


def _reason(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    cause = next((line for line in lines if "not found" in line.lower()), None)
    return printable(cause or (lines[0] if lines else "nothing"), width=200)


def _unknown(package: PackageName, reason: str) -> Refusal:
    version = f" {package.version}" if package.version else ""
    text = f"{package.index} has no package {package.name}{version} that can be added: {reason}"
    return Refusal("unknown_package", text, "check its name, and the network")
