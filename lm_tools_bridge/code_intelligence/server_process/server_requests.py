"""Answers the requests of a language server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import RequestFailed
from lm_tools_bridge.code_intelligence.server_process.client_capabilities import folder_item
from lm_tools_bridge.code_intelligence.server_process.server_capabilities import ServerCapabilities
from lm_tools_bridge.protocol import jsonrpc

_REFRESH: Final = frozenset({
    "workspace/codeLens/refresh", "workspace/diagnostic/refresh", "workspace/foldingRange/refresh",
    "workspace/inlayHint/refresh", "workspace/inlineValue/refresh", "workspace/semanticTokens/refresh",
})  # fmt: skip
_ACCEPTED: Final = frozenset({"window/workDoneProgress/create", "window/showMessageRequest"})
"""Answered with null: nobody is there to choose an action."""
_NOT_APPLIED: Final = {"applied": False, "failureReason": "this client applies no edits of its own accord"}


class ServerRequests:
    """The answers of one server's client.

    Args:
        settings: the answers to `workspace/configuration`, by section.
        folders: the workspace folders.
        capabilities: gets what the server registers.
        refreshed: called with the method of each refresh request.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        folders: Sequence[Path],
        capabilities: Callable[[], ServerCapabilities],
        refreshed: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._capabilities = capabilities
        self._refreshed = refreshed

    def answer(self, method: str, params: Any) -> Any:
        """The result of a request.

        Raises:
            RequestFailed: we do not know the method.
        """
        if method in _REFRESH:
            self._refreshed(method)
            return None
        if method in _ACCEPTED:
            return None
        match method:
            case "workspace/configuration":
                return self._configuration(params)
            case "workspace/workspaceFolders":
                return [folder_item(folder) for folder in self._folders]
            case "client/registerCapability":
                return self._capabilities().register(params)
            case "client/unregisterCapability":
                return self._capabilities().unregister(params)
            case "workspace/applyEdit":
                return _NOT_APPLIED
            case "window/showDocument":
                return {"success": False}
        raise RequestFailed(jsonrpc.METHOD_NOT_FOUND, f"this client does not know {method[:100]}")

    def _configuration(self, params: Any) -> list[Any]:
        items = params.get("items") if isinstance(params, Mapping) else None
        if not isinstance(items, list):
            return []
        return [self._section(item.get("section") if isinstance(item, Mapping) else None) for item in items]

    def _section(self, section: Any) -> Any:
        """A section of the settings; `a.b` is also member `b` of `a`. None if unknown."""
        if not section or not isinstance(section, str):
            return self._settings
        if section in self._settings:
            return self._settings[section]
        value: Any = self._settings
        for part in section.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = value[part]
        return value
