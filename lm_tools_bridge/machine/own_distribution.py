"""Where this program was installed from, the command that adds an extra to it, and its folder for data.

No hint names the distribution alone: on a package index, that name could belong to anybody.

`importlib.metadata` takes 17 ms and 1 MiB to load, so it is loaded with the first hint.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

DISTRIBUTION: Final = "lm-tools-bridge"
LANGUAGE_SERVERS: Final = "language-servers"
"""The folder in that for data that has the language servers which were installed for the user."""
_EXTRA: Final = re.compile(r"""extra == ['"]([a-z]+)['"]""")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

Installer: TypeAlias = Literal["uv tool", "pipx", "pip", "uv pip"]


class OwnDistribution(msgspec.Struct, frozen=True):
    """How this program came into its environment.

    Attributes:
        installer: what manages the environment. `uv pip`: an environment without pip.
        python: the interpreter of the environment.
        source: what was installed, as PEP 508 writes it after `@`: a folder or wheel of this machine, or a
            revision of a repository. None: unknown, or no longer there.
        is_editable: whether the sources in `source`, a folder then, are used in place.
        extras: those whose packages are all installed.
        requirements: the packages that each extra needs.
    """

    installer: Installer
    python: str
    source: str | None
    is_editable: bool = False
    extras: frozenset[str] = frozenset()
    requirements: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @property
    def editable_folder(self) -> Path | None:
        """The folder of sources that are used in place; None if the files were copied."""
        return _folder_of(self.source) if self.source is not None and self.is_editable else None

    def command_adding(self, *extras: str) -> str:
        """A command for a shell that adds extras.

        Those that are there stay: `uv tool` and pipx install anew, so they are named too.
        """
        if self.source is None:
            packages = dict.fromkeys(
                package for extra in extras for package in self.requirements.get(extra, ())
            )
            return shlex.join([*self._pip(), *packages])
        is_replaced = self.installer in ("uv tool", "pipx")
        names = ",".join(sorted({*extras, *(self.extras if is_replaced else ())}))
        if self.editable_folder is not None:
            target = ["--editable", f"{self.editable_folder}[{names}]"]
        else:
            target = [f"{DISTRIBUTION}[{names}] @ {self.source}"]
        return shlex.join([*self._install(), *target])

    def _install(self) -> list[str]:
        match self.installer:
            case "uv tool":
                return ["uv", "tool", "install", "--force"]
            case "pipx":
                return ["pipx", "install", "--force"]
            case "pip" | "uv pip":
                return self._pip()

    def _pip(self) -> list[str]:
        if self.installer == "pip":
            return [self.python, "-I", "-m", "pip", "install"]  # else a folder could bring its own pip
        return ["uv", "pip", "install", "--python", self.python]


def command_adding(*extras: str) -> str:
    """A command for a shell that adds extras to this installation, from where it came."""
    return own_distribution().command_adding(*extras)


@cache
def own_distribution() -> OwnDistribution:
    """The distribution that this process runs. It is read once."""
    source, is_editable = _source(_direct_url())
    requirements = _requirements()
    extras = frozenset(name for name, packages in requirements.items() if all(map(_is_installed, packages)))
    return OwnDistribution(
        _installer(Path(sys.prefix)), sys.executable, source, is_editable, extras, requirements
    )


def _installer(prefix: Path) -> Installer:
    if (prefix / "uv-receipt.toml").is_file():
        return "uv tool"
    if (prefix / "pipx_metadata.json").is_file():
        return "pipx"
    from importlib.util import find_spec

    return "uv pip" if find_spec("pip") is None else "pip"


def _direct_url() -> dict[str, Any]:
    """What PEP 610 records of an installation that did not come from an index; empty if it did."""
    from importlib import metadata

    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    record = json.loads(text) if text else {}
    return record if isinstance(record, dict) else {}


def _source(record: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The source of a record of PEP 610, and whether it is editable."""
    url = str(record.get("url", ""))
    if url.startswith("file:") and not _folder_of(url).exists():
        return None, False
    if (repository := record.get("vcs_info")) is not None:
        return f"{repository['vcs']}+{url}@{repository['commit_id']}", False
    if digests := record.get("archive_info", {}).get("hashes"):
        algorithm, digest = next(iter(digests.items()))
        return f"{url}#{algorithm}={digest}", False
    return url or None, bool(record.get("dir_info", {}).get("editable"))


def _folder_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def _requirements() -> dict[str, tuple[str, ...]]:
    from importlib import metadata

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    packages: dict[str, tuple[str, ...]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        if extra := _EXTRA.search(marker):
            packages[extra[1]] = (*packages.get(extra[1], ()), requirement.strip())
    return packages


def _is_installed(requirement: str) -> bool:
    from importlib import metadata

    name = _NAME.match(requirement)
    try:
        return name is not None and bool(metadata.distribution(name[0]))
    except metadata.PackageNotFoundError:
        return False


def data_folder(home: Path | None = None) -> Path:
    """The folder for what this program got for its user, and could get again; it need not exist.

    HOME alone decides it, as for the sockets: a manager that a desktop program started has few variables, and
    has to find what a terminal installed.

    Args:
        home: of another user than the one of this process.
    """
    if sys.platform in {"darwin", "win32"}:
        import platformdirs  # takes 10 ms, which nothing needs on Linux

        return platformdirs.user_data_path(DISTRIBUTION, appauthor=False)
    return (home or Path.home()) / ".local" / "share" / DISTRIBUTION


def programs_folder() -> str:
    """Where `lmtb languages install` puts links to programs."""
    return str(data_folder() / LANGUAGE_SERVERS / "bin")
