"""Reads and changes the configuration of model providers, in a user's and a workspace's file. Blocks.

A file is a JSON object whose `providers` is an array of objects with a `name`; all other members are kept.
The files are never merged: the caller names the scope. API keys are in the secret store. A project's file
needs trust, because keys are sent to its addresses (`provider_item`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from lm_tools_bridge.machine import private_files, project_file
from workspace_server.trust.item import TrustItem, hashed
from workspace_server.trust.redaction import redacted_url

Scope = Literal["user", "workspace"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
FILE: Final = "providers.json"
WORKSPACE_FOLDER: Final = ".lm-tools-bridge"
EVERY: Final = "*"
# A file with hundreds of providers takes some 100 KiB. Projects bring such files, so their size is not ours.
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
        folded = provider.casefold()
        return [
            {
                "name": entry["name"],
                "enabled": entry.get("enabled") is not False,
                "models": [model for model in _list(entry.get("models")) if isinstance(model, str)],
                **({"apiBase": entry["apiBase"]} if isinstance(entry.get("apiBase"), str) else {}),
                "source": scope,
                "sourceDetail": str(path),
            }
            for entry in entries_in(path, self.content(scope))
            if provider == EVERY or entry["name"].casefold() == folded
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
                content = dict(_document(path, self.content(scope)))
                content["providers"] = _changed(_list(content.get("providers")), provider, config)
                self._save(path, scope, content)
        except (private_files.UnsafePathError, private_files.LockTimeout) as error:
            raise ProviderConfigError(str(error)) from None
        except OSError as error:
            raise ProviderConfigError(f"{path} cannot be written: {error.strerror}") from None

    def entries(self, scope: Scope) -> dict[str, Any]:
        """The file's entries unchanged, by name. Raises like `providers`."""
        path = self.path(scope)
        content = self.content(scope)
        return {} if path is None else {entry["name"]: entry for entry in entries_in(path, content)}

    def content(self, scope: Scope) -> bytes | None:
        """The bytes of a file; None without one. A link in the workspace could lead to any file of the user.

        Raises:
            ProviderConfigError: it cannot be read, or is behind a link.
        """
        path = self.path(scope)
        try:
            return None if path is None else project_file.read(path, MAX_BYTES)
        except private_files.UnsafePathError as error:
            raise ProviderConfigError(str(error)) from None
        except OSError as error:
            raise ProviderConfigError(f"{path} cannot be read: {error.strerror}") from None

    def signature(self, scope: Scope) -> Signature:
        """A value that differs after every change of the file; None if there is no file."""
        path = self.path(scope)
        try:
            status = None if path is None else path.lstat()
        except OSError:
            return None
        return status and (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    def _save(self, path: Path, scope: Scope, content: Mapping[str, Any]) -> None:
        modes = (0o700, 0o600) if scope == "user" else (0o755, 0o644)
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        with project_file.held(path.parent, make=modes[0]) as folder:
            folder.write(path.name, text + b"\n", modes[1])


def _document(path: Path, content: bytes | None) -> Mapping[str, Any]:
    try:
        document = {} if content is None else msgspec.json.decode(content)
    except (ValueError, RecursionError):
        from lm_tools_bridge.text.jsonc_parser import json_problem  # noqa: PLC0415  only for broken files

        problem = json_problem((content or b"").decode(errors="replace"))
        raise ProviderConfigError(f"{path}, {problem.sentence()} (the file was not changed)") from None
    if not isinstance(document, dict) or not isinstance(document.get("providers", []), list):
        raise ProviderConfigError(f'{path} is not a JSON object with an array "providers"; correct it')
    return document


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def entries_in(path: Path, content: bytes | None) -> list[dict[str, Any]]:
    """The entries of these bytes of a file, unchanged.

    Raises:
        ProviderConfigError: they are not what such a file has; the message names `path`.
    """
    return [
        entry
        for entry in _list(_document(path, content).get("providers"))
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]


def _changed(providers: list[Any], name: str, config: Mapping[str, Any]) -> list[Any]:
    folded = name.casefold()
    for place, entry in enumerate(providers):
        if isinstance(entry, dict) and str(entry.get("name")).casefold() == folded:
            return [*providers[:place], {**entry, **config}, *providers[place + 1 :]]
    return [*providers, {"name": name, "enabled": True, "models": [], **config}]


def _short_hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


PROVIDERS_KEY: Final = "providers"


def provider_item(root: Path) -> TrustItem | None:
    """The item of a workspace; None if its file only restricts or names models, or cannot be used. Blocks.

    The whole content of the file is pinned: the same bytes whose addresses are shown.
    """
    try:
        content = ProviderConfig(root, root, root).content("workspace") or b""
        entries = entries_in(root / WORKSPACE_FOLDER / FILE, content or None)
    except ProviderConfigError:
        return None
    addresses = [
        [entry["name"], redacted_url(entry["apiBase"])]
        for entry in entries
        if isinstance(entry.get("apiBase"), str)
    ]
    if not addresses and not any(entry.get("enabled") is True for entry in entries):
        return None
    parts = [f"{name} at {address}" for name, address in addresses] or ["enabled by the project"]
    facts = {"from": f"{WORKSPACE_FOLDER}/{FILE}", "addresses": addresses, "content": hashed(content)}
    return TrustItem(PROVIDERS_KEY, f"model providers: {', '.join(parts)}", facts)
