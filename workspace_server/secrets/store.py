"""The secret store itself: several places, one answer.

A secret is looked for in the environment, in the credentials folder, then among the stored ones. It is stored
in the keyring where there is a real one, else in the sealed file; the sealed file always says which of the
two has it, so that a value written while the keyring was out of reach is never hidden by an older one in it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from host import redaction
from workspace_server.secrets.entry import SecretStoreError, StoredSecret, check_key, check_value
from workspace_server.secrets.os_keyring import OsKeyring
from workspace_server.secrets.provided import CredentialFiles, EnvironmentSecrets, ProvidedSecrets
from workspace_server.secrets.sealed_file import SealedFile, Signature

FOLDER: Final = "secrets"
Keys = list[str]


class SecretStore(Protocol):
    """Secrets by key. Every method raises InvalidSecretError for a malformed key.

    All raise SecretStoreError when a place that would have to be asked cannot be.
    """

    async def get(self, key: str) -> str | None:
        """The value, None when there is none."""

    async def set(self, key: str, value: str) -> None:
        """Store a value. When this fails, the old one is still there."""

    async def delete(self, key: str) -> bool:
        """Remove a value; whether there was one."""

    async def list(self) -> Keys:
        """The keys of all stored secrets, sorted. No values."""


def open_store(state_dir: Path, environ: Mapping[str, str]) -> LayeredSecretStore:
    """The store of the user with this state folder. Touches nothing before its first use.

    Args:
        state_dir: the product's state folder; the store lives in `secrets` below it.
        environ: the environment of the process.
    """
    provided: Sequence[ProvidedSecrets] = [EnvironmentSecrets(environ)]
    if credentials := environ.get("CREDENTIALS_DIRECTORY"):
        provided = [*provided, CredentialFiles(Path(credentials))]
    return LayeredSecretStore(provided, OsKeyring(), SealedFile(state_dir / FOLDER))


class LayeredSecretStore:
    """The store (`SecretStore`); any number of processes may use it at once.

    Args:
        provided: read-only places, first to last.
        keyring: where values are kept if it is there.
        sealed: the list of all stored secrets, and the values that the keyring does not have.
    """

    def __init__(self, provided: Sequence[ProvidedSecrets], keyring: OsKeyring, sealed: SealedFile) -> None:
        self._provided = provided
        self._keyring = keyring
        self._sealed = sealed

    async def get(self, key: str) -> str | None:
        """See `SecretStore`."""
        check_key(key)
        value = await asyncio.to_thread(self._get, key)
        if value is not None:
            redaction.hide(value)
        return value

    async def set(self, key: str, value: str) -> None:
        """See `SecretStore`. A secret that is provided from outside cannot be set."""
        check_key(key)
        check_value(value)
        redaction.hide(value)
        await asyncio.to_thread(self._set, key, value)

    async def delete(self, key: str) -> bool:
        """See `SecretStore`. A secret that is provided from outside cannot be deleted."""
        check_key(key)
        return await asyncio.to_thread(self._delete, key)

    async def revisions(self) -> Mapping[str, str]:
        """A text per stored key that changes with its value; for telling changes apart. No values."""
        entries = await asyncio.to_thread(self._sealed.read)
        return {key: entry.revision for key, entry in entries.items()}

    async def signature(self) -> Signature:
        """Differs when `revisions` may; cheap."""
        return await asyncio.to_thread(self._sealed.signature)

    async def list(self) -> Keys:
        """See `SecretStore`."""
        return await asyncio.to_thread(self._list)

    def _get(self, key: str) -> str | None:
        for place in self._provided:
            if (value := place.get(key)) is not None:
                return value
        entry = self._sealed.read().get(key)
        if entry is not None:
            return self._keyring.get(key) if entry.value is None else entry.value
        if self._keyring.is_there() and (value := self._keyring.get(key)) is not None:
            return value
        if (aside := self._sealed.damaged()) is not None:
            raise SecretStoreError(
                f"there is no such secret, but it may have been in {aside}, which is damaged; set it again,"
                " or remove that file"
            )
        return None

    def _set(self, key: str, value: str) -> None:
        self._must_be_ours(key)
        keyring = self._keyring.is_there()  # before the lock: looking for it may take its time
        with self._sealed.locked():
            entries = self._sealed.opened_for_change()
            old = entries.get(key)
            revision = secrets.token_hex(8)
            if not keyring:
                had_one = old is not None and old.in_keyring
                self._sealed.write({**entries, key: StoredSecret(revision, value, had_one)})
                return
            kept = {**entries, key: StoredSecret(revision, None, True)}
            if old is not None and old.value is not None:
                # while the file has the old value, the keyring's does not count: nothing is lost in between
                self._keyring.set(key, value)
                self._sealed.write(kept)
                return
            # the file first: if the disk is full, the keyring keeps what it has
            self._sealed.write(kept)
            self._keep(key, value, entries)

    def _keep(self, key: str, value: str, before: Mapping[str, StoredSecret]) -> None:
        try:
            self._keyring.set(key, value)
        except SecretStoreError:
            with suppress(SecretStoreError):
                self._sealed.write(before)
            raise

    def _delete(self, key: str) -> bool:
        self._must_be_ours(key)
        with self._sealed.locked():
            entries = dict(self._sealed.opened_for_change())
            entry = entries.pop(key, None)
            if entry is None:
                return self._delete_unlisted(key)
            if entry.in_keyring:
                self._keyring.delete(key)
            self._sealed.write(entries)
            return True

    def _delete_unlisted(self, key: str) -> bool:
        """The keyring may have a value that this store did not put there, or has lost sight of."""
        if not self._keyring.is_there() or self._keyring.get(key) is None:
            return False
        self._keyring.delete(key)
        return True

    def _list(self) -> Keys:
        entries = self._sealed.read()
        aside = self._sealed.damaged()
        if not entries and aside is not None:
            raise SecretStoreError(f"the list was in {aside}, which is damaged; set the secrets again")
        found = set(entries)
        return sorted(found.union(*(place.names() for place in self._provided)))

    def _must_be_ours(self, key: str) -> None:
        for place in self._provided:
            if place.get(key) is not None:
                raise SecretStoreError(f"this secret is given by {place.place(key)}; change it there")
