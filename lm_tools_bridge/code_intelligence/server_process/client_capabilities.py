"""Builds the parameters of `initialize`: what we can do, and what a server of this kind shall do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri

_DYNAMIC: Final = {"dynamicRegistration": True}
_LINKS: Final = {"dynamicRegistration": True, "linkSupport": True}
_TEXT_FORMATS: Final = ["markdown", "plaintext"]
_SYMBOL_KINDS: Final = {"valueSet": list(range(1, 27))}
_TAGS: Final = {"valueSet": [1, 2]}
_CODE_ACTION_KINDS: Final = [
    "", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite", "source",
    "source.organizeImports", "source.fixAll",
]  # fmt: skip

_WORKSPACE: Final = {
    "applyEdit": True,
    "configuration": True,
    "workspaceFolders": True,
    "didChangeConfiguration": _DYNAMIC,
    "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
    "symbol": {"dynamicRegistration": True, "symbolKind": _SYMBOL_KINDS},
    "workspaceEdit": {
        "documentChanges": True,
        "resourceOperations": ["create", "rename", "delete"],
        "failureHandling": "abort",
    },
    "diagnostics": {"refreshSupport": True},
}
_TEXT_DOCUMENT: Final = {
    "synchronization": {"dynamicRegistration": True, "didSave": True},
    "publishDiagnostics": {
        "relatedInformation": True,
        "versionSupport": True,
        "codeDescriptionSupport": True,
        "dataSupport": True,
        "tagSupport": _TAGS,
    },
    "declaration": _LINKS,
    "definition": _LINKS,
    "typeDefinition": _LINKS,
    "implementation": _LINKS,
    "references": _DYNAMIC,
    "hover": {"dynamicRegistration": True, "contentFormat": _TEXT_FORMATS},
    "signatureHelp": {
        "dynamicRegistration": True,
        "signatureInformation": {
            "documentationFormat": _TEXT_FORMATS,
            "parameterInformation": {"labelOffsetSupport": True},
        },
    },
    "documentSymbol": {
        "dynamicRegistration": True,
        "hierarchicalDocumentSymbolSupport": True,
        "symbolKind": _SYMBOL_KINDS,
        "tagSupport": {"valueSet": [1]},
    },
    "callHierarchy": _DYNAMIC,
    "typeHierarchy": _DYNAMIC,
    "rename": {"dynamicRegistration": True, "prepareSupport": True},
    "codeAction": {
        "dynamicRegistration": True,
        "codeActionLiteralSupport": {"codeActionKind": {"valueSet": _CODE_ACTION_KINDS}},
        "isPreferredSupport": True,
        "disabledSupport": True,
        "dataSupport": True,
        "resolveSupport": {"properties": ["edit"]},
    },
    "formatting": _DYNAMIC,
}
_PULL: Final = {"dynamicRegistration": True, "relatedDocumentSupport": True}
_GENERAL: Final = {
    "positionEncodings": ["utf-8", "utf-16"],
    "staleRequestSupport": {"cancel": True, "retryOnContentModified": []},
}


def client_capabilities(specification: ServerSpecification) -> dict[str, Any]:
    """What we tell a server of this kind that we can do."""
    pull = {"diagnostic": _PULL} if specification.offers_pull else {}
    return {
        "general": _GENERAL,
        "window": {"workDoneProgress": True},
        "workspace": _WORKSPACE,
        "textDocument": {**_TEXT_DOCUMENT, **pull},
        # rust-analyzer tells by this that it has read the project
        "experimental": {"serverStatusNotification": True},
    }


def initialize_params(
    specification: ServerSpecification, folders: Sequence[Path], version: str, process_id: int | None
) -> dict[str, Any]:
    """The parameters of `initialize`.

    Args:
        specification: the kind of server.
        folders: the workspace folders, absolute; the first is also the root of servers that know only one.
        version: of this product.
        process_id: of the process whose end should end the server; None if the server cannot see it.
    """
    params: dict[str, Any] = {
        "processId": process_id,
        "clientInfo": {"name": "lm-tools-bridge", "version": version},
        "locale": "en",
        "rootPath": str(folders[0]),
        "rootUri": to_uri(folders[0]),
        "workspaceFolders": [folder_item(folder) for folder in folders],
        "capabilities": client_capabilities(specification),
        "trace": "off",
    }
    if specification.options:
        params["initializationOptions"] = specification.options
    return params


def folder_item(folder: Path) -> dict[str, str]:
    """An LSP `WorkspaceFolder`."""
    return {"uri": to_uri(folder), "name": folder.name or str(folder)}
