"""Changes single values of a `workspace.toml` and keeps comments and formatting. Blocks.

The result is parsed again with a second parser, then replaces the file atomically; on any error the old file
stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.machine.project_file import HeldFolder
from lm_tools_bridge.text.toml_edit import NotEditableError, edit_text, find_value, put_value, remove_value
from workspace_server.config import policy
from workspace_server.config.formats.jsonc import ConfigFileError, decode
from workspace_server.config.model import Approval, PolicyDeltas
from workspace_server.config.settings import DELTAS, OBSOLETE
from workspace_server.config.watched_file import MAX_BYTES
from workspace_server.source import Default
from workspace_server.tool import Visibility

# Two seconds in all: another process holds the lock only while it writes one small file.
_TRIES: Final = 200
_TRY_S: Final = 0.01


class ConfigEditError(Exception):
    """A file cannot be changed; the message says why."""


def switch_tool(
    file: Path, name: str, switch: policy.Switch, *, defaults: Mapping[str, Default], of_project: bool = False
) -> PolicyDeltas:
    """Switch one tool in the delta lists of a file, and prune them; returns the saved lists.

    Args:
        file: `Configuration.policy_file`.
        name: the tool's offered name; it need not exist.
        switch: what to do.
        defaults: every existing tool name, with the default of its source.
        of_project: whether it is the project's file: a link on the way to it could lead to the user's own.

    Raises:
        ConfigEditError: the file is not valid, is behind a link, or is being changed by another process.
        OSError: the file cannot be written.
    """
    saved = PolicyDeltas()

    def change(document: MutableMapping[str, Any]) -> None:
        nonlocal saved
        saved = policy.with_tool(defaults, _deltas(document), name, switch)
        _put_deltas(document, saved)

    edit_file(file, change, of_project=of_project)
    return saved


def prune(file: Path, *, defaults: Mapping[str, Default]) -> PolicyDeltas:
    """Remove entries without effect from a file's delta lists; returns the saved lists.

    Raises like `switch_tool`.
    """
    saved = PolicyDeltas()

    def change(document: MutableMapping[str, Any]) -> None:
        nonlocal saved
        saved = policy.prune(defaults, _deltas(document))
        _put_deltas(document, saved)

    if file.exists():
        edit_file(file, change)
    return saved


def set_approval(file: Path, name: str, value: Approval | None) -> None:
    """Set the approval of one tool in the user's file; None removes it. Raises like `switch_tool`."""
    if value is None:
        unset(file, ["approvals", name])
    else:
        put(file, ["approvals", name], value)


def set_visibility(file: Path, root: Path, name: str, value: Visibility | None, *, of_source: bool) -> bool:
    """Set the visibility of a tool, or of all tools of a source, for one workspace in the user's file.

    Returns whether the file was changed.

    Args:
        file: the user's file.
        root: the workspace's folder.
        name: the tool's offered name, or the source's id.
        value: None removes the setting.
        of_source: whether `name` is a source's id.

    Raises like `switch_tool`.
    """
    keys = ["visibility", str(root), "sources" if of_source else "tools", name]
    return unset(file, keys) if value is None else put(file, keys, value)


def set_sandbox(file: Path, root: Path, namespace: str, choice: Literal["project", "off"] | None) -> None:
    """Set whether a server of one workspace runs in a sandbox, in the user's file; None removes the choice.

    Raises like `switch_tool`.
    """
    keys = ["sandbox", str(root), namespace]
    if choice is None:
        unset(file, keys)
    elif choice == "off":
        put(file, keys, choice)
    else:
        edit_file(file, lambda document: put_value(document, keys, _paths(document, keys)))


def allow_write(file: Path, root: Path, namespace: str, path: str) -> None:
    """Let a server of one workspace write to a further path from its sandbox. Raises like `switch_tool`."""
    keys = ["sandbox", str(root), namespace]

    def change(document: MutableMapping[str, Any]) -> None:
        paths = _paths(document, keys)
        put_value(document, keys, paths if path in paths else [*paths, path])

    edit_file(file, change)


def _paths(document: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    value = find_value(document, keys)
    return [str(path) for path in value] if isinstance(value, list) else []


def put(file: Path, keys: Sequence[str], value: Any) -> bool:
    """Set the value at a path of keys and create missing tables; whether the file was changed.

    Raises like `switch_tool`.
    """
    return edit_file(file, lambda document: put_value(document, keys, value))


def unset(file: Path, *paths: Sequence[str]) -> bool:
    """Remove the values at these paths, and tables that become empty; whether the file was changed.

    Raises like `switch_tool`.
    """

    def change(document: MutableMapping[str, Any]) -> None:
        for keys in paths:
            remove_value(document, keys)

    return file.exists() and edit_file(file, change)


def edit_file(
    file: Path, change: Callable[[MutableMapping[str, Any]], None], *, of_project: bool = False
) -> bool:
    """Apply a change to the document of a file, under the folder's lock; whether it changed anything.

    Args:
        file: a `workspace.toml`; it and its folder may be missing.
        change: see `edit_text`.
        of_project: whether it is the project's file: a link on the way to it could lead to the user's own.

    Raises like `switch_tool`.
    """
    target = _target_of(file, of_project=of_project)
    try:
        with project_file.held(target.parent, make=0o700) as folder, _folder_lock(folder, file):
            before = folder.read(target.name, MAX_BYTES)
            text, written = _changed_text(file, before or b"", change)
            if written != text:
                _replace(folder, target, before, written.encode())
            return written != text
    except UnsafePathError as error:
        raise ConfigEditError(f"{file} cannot be changed: {error.path} {error.reason}") from None


def preview_edit(
    file: Path, change: Callable[[MutableMapping[str, Any]], None], *, of_project: bool = False
) -> tuple[bytes | None, bytes]:
    """The content of a file before and after a change that is not written; arguments as for `edit_file`.

    Raises like `switch_tool`.
    """
    try:
        before = project_file.read(_target_of(file, of_project=of_project), MAX_BYTES)
    except UnsafePathError as error:
        raise ConfigEditError(f"{file} cannot be changed: {error.path} {error.reason}") from None
    return before, _changed_text(file, before or b"", change)[1].encode()


def _target_of(file: Path, *, of_project: bool) -> Path:
    """Where a file is written: a linked file of the user stays a link."""
    return file if of_project else Path(os.path.realpath(file))


def _changed_text(
    file: Path, content: bytes, change: Callable[[MutableMapping[str, Any]], None]
) -> tuple[str, str]:
    """The text before and after a change."""
    try:
        text = decode(content)
        return text, edit_text(text, change)
    except (ConfigFileError, NotEditableError) as error:
        raise ConfigEditError(f"{file} cannot be changed: {error}") from None


@contextmanager
def _folder_lock(folder: HeldFolder, file: Path) -> Iterator[None]:
    """Hold the lock of the file's folder; other processes of ours that edit in it wait."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    if folder.descriptor is None:
        yield
        return
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(folder.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(_TRY_S)
    else:
        raise ConfigEditError(f"{file} is being changed by another process; try again")
    yield


def _replace(folder: HeldFolder, file: Path, before: bytes | None, data: bytes) -> None:
    """Replace the file by `data`, unless it was changed since it was read."""
    status = folder.status(file.name)
    if folder.read(file.name, MAX_BYTES) != before:
        raise ConfigEditError(f"{file} was changed meanwhile; try again")
    folder.write(file.name, data, 0o600 if status is None else status.st_mode & 0o777)


def _deltas(document: Mapping[str, Any]) -> PolicyDeltas:
    lists = {}
    for name, key in DELTAS.items():
        value = find_value(document, key.split("."))
        if value is not None and not (
            isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        ):
            raise ConfigFileError(f'"{key}" must be an array of strings')
        lists[name] = tuple(str(entry) for entry in value or ())
    return PolicyDeltas(**lists, closed=False)


def _put_deltas(document: MutableMapping[str, Any], deltas: PolicyDeltas) -> None:
    for key in OBSOLETE:
        remove_value(document, key.split("."))
    for name, key in DELTAS.items():
        names: tuple[str, ...] = getattr(deltas, name)
        keys = key.split(".")
        if names:
            put_value(document, keys, list(names))
        else:
            remove_value(document, keys)
