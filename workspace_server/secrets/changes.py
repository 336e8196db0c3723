"""Detects which stored secrets changed, by this or another process. Reports keys, never values.

Secrets from the environment or the credentials folder do not change while a process runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from workspace_server.secrets.entry import Action, SecretStoreError
from workspace_server.secrets.sealed_file import Signature
from workspace_server.secrets.store import LayeredSecretStore


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
