"""Stores the list of secrets, and the values that no keyring holds, in a file sealed with AES-256-GCM.

The key is in a file beside it. This protects copies and backups of the sealed file alone, not against a
reader of the whole folder, which is therefore private. All methods block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine import private_files
from workspace_server import log
from workspace_server.secrets.entry import SecretStoreError, StoredSecret, entry_name

FILE: Final = "secrets.sealed"
KEY_FILE: Final = "secrets.key"
LOCK_FILE: Final = "secrets.lock"
DAMAGED: Final = f"{FILE}.damaged"
MAX_BYTES: Final = 16 * 1024 * 1024
"""Thousands of tokens and logins; the file is read and sealed as a whole."""
_HEADER: Final = b"lmtb-secrets 1\n"
# The sizes of AES-256-GCM (NIST SP 800-38D).
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ASSOCIATED: Final = FILE.encode() + b"\0" + _HEADER
"""Authenticated with the content: a file of another name or version does not open."""

Entries = Mapping[str, StoredSecret]
Signature = tuple[int, int, int, int] | None


class _DamagedFileError(Exception):
    """The file exists but cannot be decrypted."""


class SealedFile:
    """The sealed file.

    Args:
        folder: a folder used for nothing else; made private at the first write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE
        self._key_file = folder / KEY_FILE

    def read(self) -> Entries:
        """All entries.

        Raises:
            SecretStoreError: the file cannot be read. A damaged file is moved aside first.
        """
        try:
            return self._opened()
        except _DamagedFileError:
            with self.locked():
                return self._opened_or_moved()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file between processes and threads. Raises SecretStoreError."""
        try:
            private_files.make_private(self._folder)
            with private_files.locked(self._folder / LOCK_FILE):
                yield
        except (private_files.UnsafePathError, private_files.LockTimeout) as error:
            raise SecretStoreError(f"the secrets cannot be changed: {error}") from None
        except OSError as error:
            raise SecretStoreError(f"{self._folder} cannot be used: {error.strerror}") from None

    def write(self, entries: Entries) -> None:
        """Replace all entries; call while `locked`.

        Raises:
            SecretStoreError: writing failed; the old entries are unchanged.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # rarely needed, 20 ms

        try:
            key = self._key() or self._new_key()
            nonce = os.urandom(_NONCE_BYTES)
            sealed = AESGCM(key).encrypt(nonce, _encoded(entries), _ASSOCIATED)
            if len(sealed) > MAX_BYTES // 2:
                raise SecretStoreError("the secret store is full; delete some secrets")
            private_files.write(self._file, _HEADER + nonce + sealed)
        except OSError as error:
            raise SecretStoreError(
                f"the secret was not stored, older ones are unchanged: {error.strerror} ({self._file})"
            ) from None

    def opened_for_change(self) -> Entries:
        """All entries; call while `locked`. Raises like `read`."""
        return self._opened_or_moved()

    def damaged(self) -> Path | None:
        """The first damaged file that was moved aside and still exists, or None."""
        return min(self._folder.glob(f"{DAMAGED}*"), default=None)

    def signature(self) -> Signature:
        """A value that differs after every change of the file; None if there is no file."""
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    def _opened(self) -> Entries:
        try:
            sealed = private_files.read(self._file, MAX_BYTES)
            if sealed is None:
                return {}
            key = self._key()
        except private_files.UnsafePathError as error:
            raise SecretStoreError(str(error)) from None
        except OSError as error:
            raise SecretStoreError(f"{self._file} cannot be read: {error.strerror}") from None
        if key is None:
            raise SecretStoreError(
                f"{self._key_file} is missing, so {self._file} cannot be opened; restore it, or"
                f" remove {self._file} and set the secrets again"
            )
        return _unsealed(sealed, key)

    def _opened_or_moved(self) -> Entries:
        try:
            return self._opened()
        except _DamagedFileError:
            aside = self._free_name()
            self._file.rename(aside)
            log.error("secrets_damaged", file=str(self._file), moved_to=str(aside))
            raise SecretStoreError(
                f"{self._file} is damaged and was moved to {aside}; set the secrets again, then remove the"
                " moved file"
            ) from None

    def _free_name(self) -> Path:
        number = 1
        while (candidate := self._folder / f"{DAMAGED}-{number}").exists():
            number += 1
        return candidate

    def _key(self) -> bytes | None:
        key = private_files.read(self._key_file, _KEY_BYTES)
        if key is not None and len(key) != _KEY_BYTES:
            raise SecretStoreError(
                f"{self._key_file} is not a valid key; restore it, or remove it and {self._file}"
            )
        return key

    def _new_key(self) -> bytes:
        key = os.urandom(_KEY_BYTES)
        private_files.write(self._key_file, key)
        return key


def _unsealed(content: bytes, key: bytes) -> Entries:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not content.startswith(_HEADER):
        raise _DamagedFileError
    nonce, sealed = content[len(_HEADER) :][:_NONCE_BYTES], content[len(_HEADER) + _NONCE_BYTES :]
    try:
        plain = AESGCM(key).decrypt(nonce, sealed, _ASSOCIATED)
        entries = msgspec.json.decode(plain, type=dict[str, StoredSecret])
    except (InvalidTag, ValueError):  # ValueError: too short, or not our content
        raise _DamagedFileError from None
    return {name.removeprefix(entry_name("")): entry for name, entry in entries.items()}


def _encoded(entries: Entries) -> bytes:
    return msgspec.json.encode({entry_name(key): entry for key, entry in entries.items()})
