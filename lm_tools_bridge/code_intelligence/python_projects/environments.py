"""Finds the environment that has the libraries of a project in Python, by reading files only. Blocks.

Nothing of the project runs. A file of the project can name an environment of a tool, but only one in the
project or where that tool keeps its environments: else answers would show files of any folder.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import regular_file

_IN_PROJECT: Final = (".venv", "venv", "env", ".conda", ".pixi/envs/default", ".hatch")
"""Where tools and people make the environment of a project."""
_MARKS: Final = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
"""Signs of a project: an environment beside them is that of this project."""
_CONDA_ROOTS: Final = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
"""Below the home; each has its environments in `envs`."""
CONFIGURATIONS: Final = ("pyproject.toml", ".pdm-python", "environment.yml", "environment.yaml", "Pipfile")
_SITE_PACKAGES: Final = (
    "lib/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib/python3/dist-packages",
)
_MAX_ABOVE: Final = 4
"""Folders above a member of a uv workspace in which its root is looked for."""
_MAX_NAME: Final = 42
"""Characters of a project's name in the names of environments, as Poetry and Pipenv cut it."""
_UNSAFE: Final = re.compile(r"[ $`!*@\"()\[\]\\\r\n\t]")
_CONDA_NAME: Final = re.compile(r"^name:\s*['\"]?([\w.-]+)['\"]?\s*(?:#.*)?$", re.MULTILINE)

State = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An environment with libraries.

    Attributes:
        path: its folder, not following links.
        origin: who names it, for a person, e.g. `.venv`, `poetry`, `VIRTUAL_ENV`.
        site_packages: the folders of its libraries.
    """

    path: Path
    origin: str
    site_packages: tuple[Path, ...]

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.path / "bin/python"


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    origin: str


class EnvironmentFinder:
    """Finds the environment of one project, anew when one of the files that decide has changed.

    Args:
        folders: of the workspace, absolute and link-free.
        variables: returns those of the user's shell, as far as they are known.
        setting: the environment that the configuration names, absolute.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        variables: Callable[[], Mapping[str, str]],
        setting: Path | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._variables = variables
        self._setting = setting
        self._read_state: State | None = None
        self._candidates: Sequence[_Candidate] = ()
        self._state: State | None = None
        self._environment: PythonEnvironment | None = None

    @property
    def latest(self) -> PythonEnvironment | None:
        """The one of the last look."""
        return self._environment

    def current(self) -> PythonEnvironment | None:
        """The environment as it is now; None if the project has none."""
        variables = self._variables()
        names = (variables.get(name) for name in _VARIABLES)
        read_state = (*self._configuration_states(), state_of(_poetry_folder(variables)), *names)
        if read_state != self._read_state:
            self._candidates = tuple(self._look_for_candidates(variables))
            self._read_state, self._state = read_state, None
        state: State = tuple(
            state_of(candidate.path / mark)
            for candidate in self._candidates
            for mark in ("pyvenv.cfg", "lib")
        )
        if state != self._state:
            environments = map(_environment, self._candidates)
            self._environment = next((match for match in environments if match is not None), None)
            # one that is being made is looked at again: its inner folders come after these
            is_being_made = self._environment is None and any(part is not None for part in state)
            self._state = None if is_being_made else state
        return self._environment

    def _configuration_states(self) -> State:
        return tuple(state_of(folder / name) for folder in self._folders for name in CONFIGURATIONS)

    def _look_for_candidates(self, variables: Mapping[str, str]) -> Iterator[_Candidate]:
        """Where an environment may be, best first."""
        if self._setting is not None:
            yield _Candidate(self._setting, "workspace.toml")
        for folder in self._folders:
            yield from _of_folder(folder, variables)
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            path = variables.get(name, "")
            if path.startswith("/") and self._may_be_ours(Path(path), variables):
                yield _Candidate(Path(path), name)

    def _may_be_ours(self, path: Path, variables: Mapping[str, str]) -> bool:
        """Whether an active environment may be this project's: not our own, nor another project's."""
        if any(path.is_relative_to(folder) for folder in self._folders):
            return True
        is_base = variables.get("CONDA_DEFAULT_ENV") == "base" and path == Path(
            variables.get("CONDA_PREFIX", "")
        )
        is_own = os.path.realpath(path) == os.path.realpath(sys.prefix)
        return not (is_base or is_own or any((path.parent / mark).exists() for mark in _MARKS))


_VARIABLES: Final = (
    *("HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "UV_PROJECT_ENVIRONMENT", "WORKON_HOME"),
    *("POETRY_VIRTUALENVS_PATH", "POETRY_CACHE_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HATCH_DATA_DIR"),
    *("MAMBA_ROOT_PREFIX", "PYENV_ROOT"),
)
"""What says where environments are."""


def _of_folder(folder: Path, variables: Mapping[str, str]) -> Iterator[_Candidate]:
    """The candidates of one folder of the workspace."""
    home = Path(variables.get("HOME") or Path.home())
    pyproject = regular_file.read_toml(folder / "pyproject.toml")
    if of_uv := variables.get("UV_PROJECT_ENVIRONMENT"):
        yield _Candidate(folder / of_uv, "UV_PROJECT_ENVIRONMENT")
    if (path := _pdm(folder, variables, home)) is not None:
        yield _Candidate(path, "pdm")
    for name in _IN_PROJECT:
        yield _Candidate(folder / name, name)
    for above in list(folder.parents)[:_MAX_ABOVE]:
        if table_in(regular_file.read_toml(above / "pyproject.toml"), "tool", "uv", "workspace"):
            yield _Candidate(above / ".venv", "uv workspace")
    yield from (_Candidate(path, "poetry") for path in _poetry(folder, pyproject, variables))
    yield from (_Candidate(path, "hatch") for path in _hatch(folder, pyproject, variables, home))
    if (folder / "Pipfile").is_file():
        data = Path(variables.get("XDG_DATA_HOME") or home / ".local/share")
        base = Path(variables.get("WORKON_HOME") or data / "virtualenvs")
        yield _Candidate(base / pipenv_name(str(folder)), "pipenv")
    yield from (_Candidate(path, "conda") for path in _conda(folder, variables, home))


def _pdm(folder: Path, variables: Mapping[str, str], home: Path) -> Path | None:
    """The environment whose Python PDM chose: in the project, or among its own."""
    text = regular_file.read_text(folder / ".pdm-python").strip()
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local/share")
    path = Path(os.path.normpath(text)).parent.parent if text.startswith("/") else None
    if path is None:
        return None
    return path if path.is_relative_to(folder) or path.is_relative_to(data / "pdm/venvs") else None


def _poetry(folder: Path, pyproject: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Path]:
    """Where Poetry keeps the environments of this folder: one for each version of Python."""
    poetry = table_in(pyproject, "tool", "poetry")
    backend = str(table_in(pyproject, "build-system").get("build-backend", ""))
    name = poetry.get("name") or table_in(pyproject, "project").get("name")
    is_poetrys = (
        "poetry" in table_in(pyproject, "tool")
        or backend.startswith("poetry")
        or (folder / "poetry.lock").exists()
    )
    if not isinstance(name, str) or not is_poetrys:
        return
    yield from sorted(_below(_poetry_folder(variables), poetry_prefix(str(folder), name)), reverse=True)


def _poetry_folder(variables: Mapping[str, str]) -> Path:
    home = Path(variables.get("HOME") or Path.home())
    cache = Path(variables.get("XDG_CACHE_HOME") or home / ".cache")
    caches = Path(variables.get("POETRY_CACHE_DIR") or cache / "pypoetry")
    return Path(variables.get("POETRY_VIRTUALENVS_PATH") or caches / "virtualenvs")


def _hatch(
    folder: Path, pyproject: Mapping[str, Any], variables: Mapping[str, str], home: Path
) -> Iterator[Path]:
    """Where Hatch keeps the default environment of this folder."""
    name = table_in(pyproject, "project").get("name")
    if not isinstance(name, str):
        return
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local/share")
    base = Path(variables.get("HATCH_DATA_DIR") or data / "hatch") / "env/virtual"
    yield base / hatch_name(str(folder), name)


def poetry_prefix(folder: str, name: str) -> str:
    """How Poetry begins the names of the environments of a folder."""
    return f"{_normalized(name)[:_MAX_NAME]}-{_digest(folder, 8)}-py"


def hatch_name(folder: str, name: str) -> str:
    """Where Hatch has the default environment of a folder, below the folder for all."""
    return f"{_normalized(name)}/{_digest(folder, 8)}/{_normalized(name)}"


def pipenv_name(folder: str) -> str:
    """How Pipenv calls the environment of a folder."""
    name = _UNSAFE.sub("_", folder.rpartition("/")[2])[:_MAX_NAME]
    return f"{name}-{_digest(f'{folder}/Pipfile', 8)}"


def _digest(text: str, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()[:length]


def _normalized(name: str) -> str:
    """The name of a distribution as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _conda(folder: Path, variables: Mapping[str, str], home: Path) -> Iterator[Path]:
    """The environments with the name that `environment.yml` says."""
    texts = (regular_file.read_text(folder / name) for name in ("environment.yml", "environment.yaml"))
    match = next((match for text in texts if (match := _CONDA_NAME.search(text))), None)
    if match is None or match[1] == "base":
        return
    roots = [Path(root) for root in (variables.get("MAMBA_ROOT_PREFIX"),) if root]
    roots += [home / root for root in _CONDA_ROOTS]
    yield from (root / "envs" / match[1] for root in roots)
    lines = regular_file.read_text(home / ".conda/environments.txt").splitlines()
    yield from (Path(line) for line in lines if line.startswith("/") and Path(line).name == match[1])


def _environment(candidate: _Candidate) -> PythonEnvironment | None:
    """The environment, if there is one that has a place for libraries."""
    path = candidate.path
    folders = [
        folder for pattern in _SITE_PACKAGES for folder in sorted(path.glob(pattern)) if folder.is_dir()
    ]
    return PythonEnvironment(path, candidate.origin, tuple(folders)) if folders else None


def _below(folder: Path, prefix: str) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name.startswith(prefix)]
    except OSError:
        return []


def table_in(tables: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A table in a table; an empty one if it is none."""
    for name in names:
        value = tables.get(name)
        if not isinstance(value, Mapping):
            return {}
        tables = value
    return tables


def state_of(path: Path) -> tuple[int, int] | None:
    """When a file or folder changed last, and which it is; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ino
