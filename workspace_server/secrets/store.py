"""Combines the places of secrets into one store: environment, credentials, keyring, sealed file.

They are searched in this order. New values go to the keyring if there is a real one, else to the sealed file.
The sealed file records which of the two holds the current value, so an outdated keyring value is never used.
`SecretChanges` detects which stored secrets changed, by this or another process.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from lm_tools_bridge.text import redaction
from workspace_server.secrets.entry import Action, SecretStoreError, StoredSecret, check_key, check_value
from workspace_server.secrets.os_keyring import OsKeyring
from workspace_server.secrets.provided import CredentialFiles, EnvironmentSecrets, ProvidedSecrets
from workspace_server.secrets.sealed_file import SealedFile, Signature

FOLDER: Final = "secrets"
Keys = list[str]


class SecretStore(Protocol):
    """Secrets by key. Every method raises InvalidSecretError for a malformed key.

    All raise SecretStoreError if a place that is needed for the answer cannot be read or written.
    """

    async def get(self, key: str) -> str | None:
        """The value, or None."""

    async def set(self, key: str, value: str) -> None:
        """Store a value; on failure the old one stays."""

    async def delete(self, key: str) -> bool:
        """Remove a value; returns whether there was one."""

    async def list(self) -> Keys:
        """The sorted keys of all secrets."""


def open_store(state_dir: Path, environ: Mapping[str, str]) -> LayeredSecretStore:
    """The store of the user with this state folder. No file is touched before its first use.

    Args:
        state_dir: this program's state folder; the store uses `secrets` in it.
        environ: this process's environment.
    """
    provided: Sequence[ProvidedSecrets] = [EnvironmentSecrets(environ)]
    if credentials := environ.get("CREDENTIALS_DIRECTORY"):
        provided = [*provided, CredentialFiles(Path(credentials))]
    return LayeredSecretStore(provided, OsKeyring(), SealedFile(state_dir / FOLDER))


class LayeredSecretStore:
    """A `SecretStore` over several places; any number of processes may use it at once.

    Args:
        provided: read-only places, in order of precedence.
        keyring: holds the values, if it exists.
        sealed: the list of all stored secrets, and the values that the keyring does not hold.
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
        """A text for each stored key that changes with every change of its value."""
        entries = await asyncio.to_thread(self._sealed.read)
        return {key: entry.revision for key, entry in entries.items()}

    async def signature(self) -> Signature:
        """A value that changes whenever `revisions` may have changed; cheap."""
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
                f"there is no such secret; it may have been in {aside}, which is damaged; set it again,"
                " or remove the damaged file"
            )
        return None

    def _set(self, key: str, value: str) -> None:
        self._refuse_provided(key)
        keyring = self._keyring.is_there()  # before taking the lock: this may take seconds
        with self._sealed.locked():
            entries = self._sealed.opened_for_change()
            old = entries.get(key)
            revision = secrets.token_hex(8)
            if not keyring:
                had_one = old is not None and old.in_keyring
                self._sealed.write({**entries, key: StoredSecret(revision, value, had_one)})
                return
            remaining = {**entries, key: StoredSecret(revision, None, True)}
            if old is not None and old.value is not None:
                # until the file is rewritten, its old value is in force: nothing is lost in between
                self._keyring.set(key, value)
                self._sealed.write(remaining)
                return
            # the file first: if the disk is full, the keyring stays unchanged
            self._sealed.write(remaining)
            self._keep(key, value, entries)

    def _keep(self, key: str, value: str, before: Mapping[str, StoredSecret]) -> None:
        try:
            self._keyring.set(key, value)
        except SecretStoreError:
            with suppress(SecretStoreError):
                self._sealed.write(before)
            raise

    def _delete(self, key: str) -> bool:
        self._refuse_provided(key)
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
        """Delete a keyring value that the sealed file does not list."""
        if not self._keyring.is_there() or self._keyring.get(key) is None:
            return False
        self._keyring.delete(key)
        return True

    def _list(self) -> Keys:
        entries = self._sealed.read()
        aside = self._sealed.damaged()
        if not entries and aside is not None:
            raise SecretStoreError(f"the list of secrets ({aside}) is damaged; set the secrets again")
        keys = set(entries)
        return sorted(keys.union(*(place.names() for place in self._provided)))

    def _refuse_provided(self, key: str) -> None:
        for place in self._provided:
            if place.get(key) is not None:
                raise SecretStoreError(f"this secret is set by {place.place(key)}; change it there")


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, Action]]:
    """The changes between two results of `LayeredSecretStore.revisions`, by key."""
    changes: list[tuple[str, Action]] = [(key, "added") for key in after.keys() - before.keys()]
    changes += [(key, "removed") for key in before.keys() - after.keys()]
    changes += [(key, "changed") for key in before.keys() & after.keys() if before[key] != after[key]]
    return sorted(changes)


class SecretChanges:
    """Compares the store with its state at the previous poll; the first poll reports no change."""

    def __init__(self, store: LayeredSecretStore) -> None:
        self._store = store
        self._signature: Signature = None
        self._seen: Mapping[str, str] | None = None

    async def poll(self) -> list[tuple[str, Action]]:
        """The changes since the previous poll, by key; none while the store cannot be read."""
        signature = await self._store.signature()
        if self._seen is not None and signature == self._signature:
            return []
        try:
            now = await self._store.revisions()
        except SecretStoreError:
            return []
        before, self._seen, self._signature = self._seen, now, signature
        return [] if before is None else differences(before, now)
