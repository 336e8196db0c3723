"""Implements the internal tools, for the user's own programs; models never see them.

Arguments are checked here instead of by the schema validator, whose messages could quote a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workspace_server.internal_channel.provider_config import (
    SCOPES,
    ProviderConfig,
    ProviderConfigError,
    Scope,
)
from workspace_server.naming import INTERNAL_PREFIX
from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError
from workspace_server.secrets.store import SecretStore
from workspace_server.tool import InvalidArguments, ToolError

Arguments = Mapping[str, Any]
Handler = Callable[[Arguments], Awaitable[dict[str, Any]]]
_MARK: Final = "[Internal] "
_KINDS: Final[Mapping[str, type]] = {"string": str, "object": dict, "boolean": bool, "array": list}
_KEY: Final = {"type": "string", "description": "Name of the secret, for example a provider"}
_PROVIDER: Final = {"type": "string", "description": "Name of the provider"}
_SCOPE: Final = {"type": "string", "enum": list(SCOPES), "description": "Whose configuration"}
_CONFIG: Final = {
    "type": "object",
    "properties": {
        "enabled": {"type": "boolean"},
        "models": {"type": "array", "items": {"type": "string"}},
        "apiBase": {"type": "string"},
    },
    "additionalProperties": False,
}


def _schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    required = {"required": list(properties)} if properties else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **required}


@dataclass(frozen=True, slots=True)
class InternalTool:
    """One internal tool: its definition under its full name, and its handler."""

    definition: Mapping[str, Any]
    handler: Handler

    async def __call__(self, arguments: Arguments) -> dict[str, Any]:
        """Check the arguments and run the tool.

        Raises:
            InvalidArguments: the arguments are invalid; the message quotes no value.
            ToolError: the tool failed.
        """
        check(self.definition["inputSchema"], arguments)
        try:
            return await self.handler(arguments)
        except InvalidSecretError as refused:
            raise InvalidArguments(f"/{refused.member}", str(refused)) from None
        except (SecretStoreError, ProviderConfigError) as failed:
            raise ToolError(str(failed)) from None


class InternalTools:
    """All internal tools of one workspace.

    Args:
        store: the secrets.
        config: the configuration of model providers.
        root: the workspace's root, or None.
        prefix: prefix of the tools' names.
    """

    def __init__(
        self,
        store: SecretStore,
        config: ProviderConfig,
        root: Path | None,
        prefix: str = INTERNAL_PREFIX,
    ) -> None:
        self._store = store
        self._config = config
        self._root = root
        self.prefix = prefix
        self._table = {
            "secrets_get": self._tool("secrets_get", "Get a secret", self._get, key=_KEY),
            "secrets_set": self._tool(
                "secrets_set", "Store a secret", self._set, key=_KEY, value={"type": "string"}
            ),
            "secrets_delete": self._tool("secrets_delete", "Delete a secret", self._delete, key=_KEY),
            "secrets_list": self._tool("secrets_list", "List the names of all stored secrets", self._list),
            "config_get": self._tool(
                "config_get",
                'Get the configuration of a provider, or of all with "*"',
                self._config_get,
                provider=_PROVIDER,
                scope=_SCOPE,
            ),
            "config_set": self._tool(
                "config_set",
                "Change the configuration of a provider",
                self._config_set,
                provider=_PROVIDER,
                config=_CONFIG,
                scope=_SCOPE,
            ),
            "workspace_root": self._tool("workspace_root", "Get the path of the workspace", self._get_root),
        }

    def definitions(self) -> list[Mapping[str, Any]]:
        """The tools' definitions under their full names."""
        return [tool.definition for tool in self._table.values()]

    def get(self, name: str) -> InternalTool | None:
        """The tool with this full name, or None."""
        if not name.startswith(self.prefix):
            return None
        return self._table.get(name.removeprefix(self.prefix))

    def find_tool(self, word: str) -> InternalTool:
        """The tool with this name, given without the prefix; it must exist."""
        return self._table[word]

    def _tool(
        self, word: str, description: str, handler: Handler, **properties: Mapping[str, Any]
    ) -> InternalTool:
        definition = {
            "name": self.prefix + word,
            "description": _MARK + description,
            "inputSchema": _schema(**properties),
        }
        return InternalTool(definition, handler)

    async def _get(self, arguments: Arguments) -> dict[str, Any]:
        value = await self._store.get(arguments["key"])
        return {"found": value is not None, "value": value}

    async def _set(self, arguments: Arguments) -> dict[str, Any]:
        await self._store.set(arguments["key"], arguments["value"])
        return {"success": True}

    async def _delete(self, arguments: Arguments) -> dict[str, Any]:
        await self._store.delete(arguments["key"])
        return {"success": True}

    async def _list(self, arguments: Arguments) -> dict[str, Any]:
        return {"keys": await self._store.list()}

    async def _config_get(self, arguments: Arguments) -> dict[str, Any]:
        scope, provider = _scope(arguments), arguments["provider"]
        return {"providers": await asyncio.to_thread(self._config.providers, scope, provider)}

    async def _config_set(self, arguments: Arguments) -> dict[str, Any]:
        scope, provider = _scope(arguments), arguments["provider"]
        if not provider.strip() or provider == "*" or len(provider) > 128:
            raise InvalidArguments("/provider", "expected the name of one provider, 1 to 128 characters")
        config = arguments["config"]
        check(_CONFIG, config, "/config")
        if not all(isinstance(model, str) for model in config.get("models", ())):
            raise InvalidArguments("/config/models", "expected an array of strings")
        await asyncio.to_thread(self._config.change, scope, provider, config)
        return {"success": True}

    async def _get_root(self, arguments: Arguments) -> dict[str, Any]:
        return {"path": None if self._root is None else str(self._root)}


def check(schema: Mapping[str, Any], value: Arguments, pointer: str = "") -> None:
    """Raise InvalidArguments unless `value` has the members that the schema requires; quotes no values."""
    properties: Mapping[str, Any] = schema["properties"]
    for name in schema.get("required", ()):
        if name not in value:
            raise InvalidArguments(f"{pointer}/{name}", f"required ({properties[name]['type']})")
    for name, member in value.items():
        if name not in properties:
            # does not quote the name, which may be a misplaced value
            raise InvalidArguments(
                pointer or "/", f"unknown property; expected only {', '.join(properties) or 'none'}"
            )
        if not isinstance(member, _KINDS[properties[name]["type"]]):
            raise InvalidArguments(f"{pointer}/{name}", f"expected {properties[name]['type']}")


def _scope(arguments: Arguments) -> Scope:
    for scope in SCOPES:
        if arguments["scope"] == scope:
            return scope
    raise InvalidArguments("/scope", f"expected {' or '.join(SCOPES)}")
