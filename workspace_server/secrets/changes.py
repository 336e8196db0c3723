"""Which secrets changed, whoever changed them: this process, or another one that uses the same store.

It tells keys, never values, and knows nothing of who wants to hear of them. Secrets that are provided from
outside do not change while a process lives.
"""

from __future__ import annotations

from collections.abc import Mapping

from workspace_server.secrets.entry import Action, SecretStoreError
from workspace_server.secrets.sealed_file import Signature
from workspace_server.secrets.store import LayeredSecretStore


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, Action]]:
    """What happened between two states of `LayeredSecretStore.revisions`, by key."""
    found: list[tuple[str, Action]] = [(key, "added") for key in after.keys() - before.keys()]
    found += [(key, "removed") for key in before.keys() - after.keys()]
    found += [(key, "changed") for key in before.keys() & after.keys() if before[key] != after[key]]
    return sorted(found)


class SecretChanges:
    """Remembers how the store looked at the last look. The first look finds nothing changed."""

    def __init__(self, store: LayeredSecretStore) -> None:
        self._store = store
        self._signature: Signature = None
        self._seen: Mapping[str, str] | None = None

    async def look(self) -> list[tuple[str, Action]]:
        """What changed since the last look, by key. A store that cannot be read has not changed."""
        signature = await self._store.signature()
        if self._seen is not None and signature == self._signature:
            return []
        try:
            now = await self._store.revisions()
        except SecretStoreError:
            return []
        before, self._seen, self._signature = self._seen, now, signature
        return [] if before is None else differences(before, now)
