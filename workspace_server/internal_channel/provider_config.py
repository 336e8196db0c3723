"""Reads and changes the configuration of model providers, in a user's and a workspace's file. Blocks.

A file is a JSON object whose `providers` is an array of objects with a `name`; all other members are kept.
The files are never merged: the caller names the scope. API keys are in the secret store.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from host.files import private_files

Scope = Literal["user", "workspace"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
FILE: Final = "providers.json"
WORKSPACE_FOLDER: Final = ".lm-tools-bridge"
EVERY: Final = "*"
MAX_BYTES: Final = 1024 * 1024

Signature = tuple[int, int, int, int] | None


class ProviderConfigError(Exception):
    """A file cannot be read or written; the message says why and what the user can do."""


class ProviderConfig:
    """The two files.

    Args:
        config_dir: the user's configuration folder.
        root: the workspace's folder, or None.
        locks: a private folder for the locks between processes.
    """

    def __init__(self, config_dir: Path, root: Path | None, locks: Path) -> None:
        self._config_dir = config_dir
        self._root = root
        self._locks = locks

    def path(self, scope: Scope) -> Path | None:
        """The file of a scope, with links resolved for the user's; None if there is no workspace."""
        if scope == "user":
            return Path(os.path.realpath(self._config_dir / FILE))
        return None if self._root is None else self._root / WORKSPACE_FOLDER / FILE

    def providers(self, scope: Scope, provider: str = EVERY) -> list[dict[str, Any]]:
        """The entries of one provider (case-insensitive) or of all providers in one scope.

        Raises:
            ProviderConfigError: the file exists but cannot be used.
        """
        path = self.path(scope)
        if path is None:
            return []
        wanted = provider.casefold()
        return [
            {
                "name": entry["name"],
                "enabled": entry.get("enabled") is not False,
                "models": [model for model in _list(entry.get("models")) if isinstance(model, str)],
                **({"apiBase": entry["apiBase"]} if isinstance(entry.get("apiBase"), str) else {}),
                "source": scope,
                "sourceDetail": str(path),
            }
            for entry in _entries(self._content(path, scope))
            if provider == EVERY or entry["name"].casefold() == wanted
        ]

    def change(self, scope: Scope, provider: str, config: Mapping[str, Any]) -> None:
        """Set members of a provider's entry, and create it if needed; other members stay.

        Raises:
            ProviderConfigError: the change failed; the file is unchanged.
        """
        path = self.path(scope)
        if path is None:
            raise ProviderConfigError("there is no workspace")
        try:
            private_files.make_private(self._locks)
            with private_files.locked(self._locks / f"{_short_hash(path)}.lock"):
                content = dict(self._content(path, scope))
                content["providers"] = _changed(_list(content.get("providers")), provider, config)
                self._save(path, scope, content)
        except (private_files.UnsafePathError, private_files.LockTimeout) as error:
            raise ProviderConfigError(str(error)) from None
        except OSError as error:
            raise ProviderConfigError(f"{path} cannot be written: {error.strerror}") from None

    def entries(self, scope: Scope) -> dict[str, Any]:
        """The file's entries unchanged, by name. Raises like `providers`."""
        path = self.path(scope)
        return {} if path is None else {one["name"]: one for one in _entries(self._content(path, scope))}

    def signature(self, scope: Scope) -> Signature:
        """A value that differs after every change of the file; None if there is no file."""
        path = self.path(scope)
        try:
            status = None if path is None else path.lstat()
        except OSError:
            return None
        return status and (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    def _content(self, path: Path, scope: Scope) -> Mapping[str, Any]:
        try:
            raw = _read(path, scope)
            content = {} if raw is None else msgspec.json.decode(raw)
        except private_files.UnsafePathError as error:
            raise ProviderConfigError(str(error)) from None
        except OSError as error:
            raise ProviderConfigError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise ProviderConfigError(
                f"{path} is not valid JSON; correct it (the file was not changed)"
            ) from None
        if not isinstance(content, dict) or not isinstance(content.get("providers", []), list):
            raise ProviderConfigError(f'{path} is not a JSON object with an array "providers"; correct it')
        return content

    def _save(self, path: Path, scope: Scope, content: Mapping[str, Any]) -> None:
        folder = path.parent
        if scope == "user":
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            folder.mkdir(exist_ok=True)
            _refuse_link(folder)
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        private_files.write(path, text + b"\n", 0o600 if scope == "user" else 0o644)


def _read(path: Path, scope: Scope) -> bytes | None:
    """Read a file; in the workspace links are refused, because they could lead to any file of the user."""
    if scope == "workspace":
        try:
            _refuse_link(path.parent)
        except FileNotFoundError:
            return None
    return private_files.read(path, MAX_BYTES, private=False)


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise private_files.UnsafePathError(folder, "is a symbolic link", f"remove {folder}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        entry
        for entry in _list(content.get("providers"))
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]


def _changed(providers: list[Any], name: str, config: Mapping[str, Any]) -> list[Any]:
    wanted = name.casefold()
    for place, entry in enumerate(providers):
        if isinstance(entry, dict) and str(entry.get("name")).casefold() == wanted:
            return [*providers[:place], {**entry, **config}, *providers[place + 1 :]]
    return [*providers, {"name": name, "enabled": True, "models": [], **config}]


def _short_hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
