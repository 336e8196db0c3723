"""Keeps what a server offers: the capabilities of its `initialize` result, and its registrations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from workspace_server.results import clean_text

MAX_REGISTRATIONS: Final = 1000
"""Real servers register some dozens; one in error could register without end."""
MAX_VERSION: Final = 200
"""Characters of the version in status, which is one line."""

_PROVIDERS: Final = {
    "textDocument/declaration": "declarationProvider",
    "textDocument/definition": "definitionProvider",
    "textDocument/typeDefinition": "typeDefinitionProvider",
    "textDocument/implementation": "implementationProvider",
    "textDocument/references": "referencesProvider",
    "textDocument/hover": "hoverProvider",
    "textDocument/signatureHelp": "signatureHelpProvider",
    "textDocument/documentSymbol": "documentSymbolProvider",
    "textDocument/documentHighlight": "documentHighlightProvider",
    "textDocument/documentLink": "documentLinkProvider",
    "textDocument/completion": "completionProvider",
    "textDocument/codeAction": "codeActionProvider",
    "textDocument/codeLens": "codeLensProvider",
    "textDocument/formatting": "documentFormattingProvider",
    "textDocument/rangeFormatting": "documentRangeFormattingProvider",
    "textDocument/rename": "renameProvider",
    "textDocument/foldingRange": "foldingRangeProvider",
    "textDocument/selectionRange": "selectionRangeProvider",
    "textDocument/inlayHint": "inlayHintProvider",
    "textDocument/diagnostic": "diagnosticProvider",
    "textDocument/prepareCallHierarchy": "callHierarchyProvider",
    "textDocument/prepareTypeHierarchy": "typeHierarchyProvider",
    "textDocument/ast": "astProvider",
    "workspace/symbol": "workspaceSymbolProvider",
    "workspace/executeCommand": "executeCommandProvider",
    "$/memoryUsage": "memoryUsageProvider",
}
_PREPARED_BY: Final = {
    "callHierarchy/incomingCalls": "textDocument/prepareCallHierarchy",
    "callHierarchy/outgoingCalls": "textDocument/prepareCallHierarchy",
    "typeHierarchy/supertypes": "textDocument/prepareTypeHierarchy",
    "typeHierarchy/subtypes": "textDocument/prepareTypeHierarchy",
}
_OPTIONS: Final = {
    "codeAction/resolve": ("textDocument/codeAction", "resolveProvider"),
    "textDocument/prepareRename": ("textDocument/rename", "prepareProvider"),
    "workspace/diagnostic": ("textDocument/diagnostic", "workspaceDiagnostics"),
    "workspaceSymbol/resolve": ("workspace/symbol", "resolveProvider"),
}
"""Methods that an option of another method's provider announces."""
_ENCODINGS: Final[Mapping[Any, PositionEncoding]] = {
    "utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"
}  # fmt: skip


class ServerCapabilities:
    """What one server offers at this moment.

    Args:
        result: its `initialize` result, whatever that is.
    """

    def __init__(self, result: Any) -> None:
        capabilities = result.get("capabilities") if isinstance(result, Mapping) else None
        self._static: Mapping[str, Any] = capabilities if isinstance(capabilities, Mapping) else {}
        self._registered: dict[str, tuple[str, Mapping[str, Any]]] = {}

    @property
    def encoding(self) -> PositionEncoding:
        """The unit of its positions; UTF-16 if it did not choose one."""
        encoding = self._static.get("positionEncoding")
        return _ENCODINGS.get(encoding, "utf-16") if isinstance(encoding, str) else "utf-16"

    @property
    def current(self) -> Mapping[str, Any]:
        """The `capabilities` object with the providers that were registered."""
        registered = {
            _PROVIDERS[method]: options or True
            for method, options in self._registered.values()
            if method in _PROVIDERS
        }
        return {**self._static, **registered}

    def supports(self, method: str) -> bool:
        """Whether it announced that it serves this method, at `initialize` or later."""
        if method in _OPTIONS:
            owner, option = _OPTIONS[method]
            provider = self.current.get(_PROVIDERS[owner])
            return isinstance(provider, Mapping) and bool(provider.get(option))
        method = _PREPARED_BY.get(method, method)
        if self.registrations(method):
            return True
        announced = self._static.get(_PROVIDERS.get(method, ""))
        return announced is not None and announced is not False  # an empty object is a yes

    def registrations(self, method: str) -> Sequence[Mapping[str, Any]]:
        """The options of what it registered for a method, e.g. the file watchers."""
        return [options for registered, options in self._registered.values() if registered == method]

    def register(self, params: Any) -> None:
        """Take the parameters of `client/registerCapability`; what cannot be understood is left out."""
        for registration in _items(params, "registrations"):
            identity, method, options = (
                registration.get("id"),
                registration.get("method"),
                registration.get("registerOptions"),
            )
            is_known = identity in self._registered if isinstance(identity, str) else False
            if not isinstance(identity, str) or not isinstance(method, str):
                continue
            if is_known or len(self._registered) < MAX_REGISTRATIONS:
                self._registered[identity] = method, options if isinstance(options, Mapping) else {}

    def unregister(self, params: Any) -> None:
        """Take the parameters of `client/unregisterCapability`."""
        for registration in _items(params, "unregisterations"):  # the specification misspells it
            if isinstance(identity := registration.get("id"), str):
                self._registered.pop(identity, None)


def version_in(result: Any) -> str | None:
    """The version in an `initialize` result."""
    info = result.get("serverInfo") if isinstance(result, Mapping) else None
    version = info.get("version") if isinstance(info, Mapping) else None
    return clean_text(version[:MAX_VERSION]) if isinstance(version, str) else None


def _items(params: Any, name: str) -> Sequence[Mapping[str, Any]]:
    items = params.get(name) if isinstance(params, Mapping) else None
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]
