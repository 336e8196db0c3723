"""Detects changes of secrets and provider configuration, and words the notifications: names, no values.

`channel.py` decides when to poll and sends the notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from workspace_server.internal_channel.provider_config import (
    SCOPES,
    ProviderConfig,
    ProviderConfigError,
    Scope,
    Signature,
)
from workspace_server.secrets.changes import SecretChanges

SECRET_CHANGED: Final = "notifications/secretChanged"  # noqa: S105  the name of a notification
CONFIG_CHANGED: Final = "notifications/configChanged"
Notice = tuple[str, Mapping[str, Any]]


class ChangeWatcher:
    """Compares secrets and configuration with their state at the previous poll; the first finds no change."""

    def __init__(self, secrets: SecretChanges, config: ProviderConfig) -> None:
        self._secrets = secrets
        self._config = config
        self._signatures: dict[Scope, Signature] = {}
        self._entries: dict[Scope, Mapping[str, Any]] = {}
        self._lock = asyncio.Lock()

    async def poll(self) -> list[Notice]:
        """The notifications (method, parameters) of changes since the previous poll."""
        async with self._lock:
            changed = await self._secrets.poll()
            notices: list[Notice] = [
                (SECRET_CHANGED, {"key": key, "action": action}) for key, action in changed
            ]
            for scope in SCOPES:
                names = await asyncio.to_thread(self._changed, scope)
                notices += [(CONFIG_CHANGED, {"scope": scope, "provider": name}) for name in names]
            return notices

    def _changed(self, scope: Scope) -> Sequence[str | None]:
        """Names of providers whose entry changed; [None] if the file became unreadable."""
        signature = self._config.signature(scope)
        is_new = scope not in self._signatures
        if not is_new and signature == self._signatures[scope]:
            return []
        self._signatures[scope] = signature
        try:
            now = self._config.entries(scope)
        except ProviderConfigError:
            return [] if is_new else [None]
        before, self._entries[scope] = self._entries.get(scope, {}), now
        if is_new:
            return []
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
