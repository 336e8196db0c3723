"""Describes what is recorded of a trusted workspace, and writes and reads it as JSON. Pure.

Reading is strict: a record that does not have exactly this structure is rejected whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from workspace_server.trust.inheritance import is_same_elsewhere, leads_out
from workspace_server.trust.item import DATA, TrustItem
from workspace_server.trust.moved_entries import has_only_moved

# The form of a record: another version is refused, as guessing could trust too much.
VERSION: Final = 1
# Texts are kept for showing a difference only: of larger files the hash is enough.
MAX_TEXT: Final = 64 * 1024
MAX_TEXTS: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """One folder: its path with links resolved, and its identity on the file system."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file as it was trusted. `text` is None for binary and large files, which are compared by hash."""

    size: int
    sha256: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedItem:
    """An item as it was trusted."""

    digest: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, RecordedFile] = field(default_factory=dict)

    @property
    def data(self) -> tuple[str, ...]:
        """The files of the command that were trusted to change, as the command writes them."""
        data = self.facts.get(DATA)
        return tuple(entry for entry in data if isinstance(entry, str)) if isinstance(data, list) else ()

    def has_only_moved_to(self, item: TrustItem) -> bool:
        """Whether the item differs only in the file of its entry."""
        return has_only_moved(self.facts, self._hashes, item)

    def holds_for(self, item: TrustItem, folder: str, root: str) -> bool:
        """Whether this item of `folder` and an item of another working tree, `root`, are the same."""
        if leads_out(self.facts):
            return False
        return self.digest == item.digest() or is_same_elsewhere(self.facts, self._hashes, folder, item, root)

    @property
    def _hashes(self) -> dict[str, str]:
        return {name: file.sha256 for name, file in self.files.items()}


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """Everything trusted of one workspace, by item key.

    `repository` is the git repository of which the folder was a working tree when it was trusted.
    """

    folder: FolderIdentity
    items: Mapping[str, RecordedItem]
    repository: FolderIdentity | None = None


class InvalidRecordError(Exception):
    """The bytes are not a valid record."""


def record_of(
    folder: FolderIdentity, items: Sequence[TrustItem], repository: FolderIdentity | None = None
) -> TrustRecord:
    """The record of these items. Texts are kept up to `MAX_TEXTS` in all; of further files only hashes are.

    Raises:
        ValueError: two items have the same key.
    """
    room = MAX_TEXTS
    recorded: dict[str, RecordedItem] = {}
    for item in items:
        if item.key in recorded:
            raise ValueError(f"two items with the key {item.key!r}")
        files: dict[str, RecordedFile] = {}
        for name, content in item.files.items():
            files[name] = recorded_file(content, room)
            room -= len(content) if files[name].text is not None else 0
        recorded[item.key] = RecordedItem(item.digest(), item.title, item.facts, files)
    return TrustRecord(folder, recorded, repository)


def recorded_file(content: bytes, room: int = MAX_TEXT) -> RecordedFile:
    """The record of a file, with its text if that has at most `room` bytes."""
    text = text_of(content) if len(content) <= room else None
    return RecordedFile(len(content), hashlib.sha256(content).hexdigest(), text)


def text_of(content: bytes) -> str | None:
    """The content as text; None if it is binary or larger than 64 KiB."""
    if len(content) > MAX_TEXT or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def encode(record: TrustRecord) -> bytes:
    """The record as JSON; paths that are not UTF-8 are kept as escaped surrogates."""
    items = {
        key: {
            "digest": item.digest,
            "title": item.title,
            "facts": item.facts,
            "files": {name: _file_as_json(file) for name, file in item.files.items()},
        }
        for key, item in record.items.items()
    }
    whole = {"version": VERSION, "folder": asdict(record.folder), "items": items}
    if record.repository is not None:  # earlier versions pass over it
        whole["repository"] = asdict(record.repository)
    return json.dumps(whole, ensure_ascii=True, indent=1, sort_keys=True, default=str).encode("ascii")


def _file_as_json(file: RecordedFile) -> dict[str, Any]:
    text = {} if file.text is None else {"text": file.text}
    return {"size": file.size, "sha256": file.sha256, **text}


def decode(raw: bytes) -> TrustRecord:
    """Decode a record.

    Raises:
        InvalidRecordError: the bytes do not have exactly the structure of this version.
    """
    try:
        whole = json.loads(raw)
        if whole["version"] != VERSION:
            raise InvalidRecordError(f"its version is {whole['version']!r}, not {VERSION}")
        repository = None if "repository" not in whole else _folder(whole["repository"])
        items = {key: _item(member) for key, member in _is(dict, whole["items"]).items()}
        return TrustRecord(_folder(whole["folder"]), items, repository)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidRecordError(f"the file is damaged ({type(error).__name__})") from None


def _folder(value: Any) -> FolderIdentity:
    return FolderIdentity(_is(str, value["path"]), _is(int, value["device"]), _is(int, value["inode"]))


def _item(value: Any) -> RecordedItem:
    files = {
        name: RecordedFile(
            _is(int, member["size"]),
            _is(str, member["sha256"]),
            None if member.get("text") is None else _is(str, member["text"]),
        )
        for name, member in _is(dict, value["files"]).items()
    }
    return RecordedItem(_is(str, value["digest"]), _is(str, value["title"]), _is(dict, value["facts"]), files)


def _is(kind: type, value: Any) -> Any:
    if type(value) is not kind:  # exact: a bool is not accepted as an int
        raise TypeError(kind.__name__)
    return value
