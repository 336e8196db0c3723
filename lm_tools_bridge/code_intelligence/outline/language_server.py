"""Answers the messages of LSP that an outline needs: documents, their symbols, and the project's symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.outline.grammars import LANGUAGES, grammar, installed
from lm_tools_bridge.code_intelligence.outline.project_symbols import ProjectSymbols
from lm_tools_bridge.code_intelligence.outline.syntax_symbols import symbols_of
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from lm_tools_bridge.machine import regular_file

# codes of errors in JSON-RPC 2.0, section 5.1
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CAPABILITIES: Final[Mapping[str, Any]] = {
    "positionEncoding": "utf-8",
    "textDocumentSync": {"openClose": True, "change": 1},
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
}


class OutlineServer:
    """One server with its open documents. Every method takes the decoded `params` of its message.

    Attributes:
        ended: whether `exit` was received.
    """

    def __init__(self) -> None:
        self.ended = False
        self._documents: dict[str, bytes] = {}
        self._languages: dict[str, str] = {}
        self._project = ProjectSymbols([], installed())
        self._requests: Mapping[str, Callable[[Any], Any]] = {
            "initialize": self._initialize,
            "shutdown": lambda params: None,
            "textDocument/documentSymbol": self._document_symbols,
            "workspace/symbol": self._project_symbols,
        }
        self._notifications: Mapping[str, Callable[[Any], None]] = {
            "textDocument/didOpen": self._open_document,
            "textDocument/didChange": self._changed,
            "textDocument/didClose": self._close_document,
            "exit": self._exit,
        }

    def handle(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The response to a request; None for a notification."""
        method, params = str(message.get("method")), message.get("params")
        if "id" not in message:
            self._notifications.get(method, lambda params: None)(params)
            return None
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if method not in self._requests:
            return {**answer, "error": {"code": METHOD_NOT_FOUND, "message": f"no method {method}"}}
        try:
            return {**answer, "result": self._requests[method](params)}
        except (KeyError, TypeError, ValueError, ImportError) as fault:
            return {
                **answer,
                "error": {"code": INVALID_PARAMS, "message": f"{type(fault).__name__}: {fault}"},
            }
        except OSError as fault:
            return {**answer, "error": {"code": INTERNAL_ERROR, "message": fault.strerror or str(fault)}}

    def _initialize(self, params: Any) -> Any:
        offered = params["capabilities"].get("general", {}).get("positionEncodings", ())
        if "utf-8" not in offered:
            raise ValueError("this server counts columns in UTF-8, which the client does not offer")
        folders = params.get("workspaceFolders") or ()
        self._project = ProjectSymbols([_path(folder["uri"]) for folder in folders], installed())
        return {"capabilities": CAPABILITIES, "serverInfo": {"name": "lm-tools-bridge outline"}}

    def _open_document(self, params: Any) -> None:
        document = params["textDocument"]
        self._documents[document["uri"]] = document["text"].encode()
        self._languages[document["uri"]] = document["languageId"]

    def _changed(self, params: Any) -> None:
        for change in params["contentChanges"]:
            self._documents[params["textDocument"]["uri"]] = change["text"].encode()

    def _close_document(self, params: Any) -> None:
        self._documents.pop(params["textDocument"]["uri"], None)
        self._languages.pop(params["textDocument"]["uri"], None)

    def _exit(self, params: Any) -> None:
        self.ended = True

    def _document_symbols(self, params: Any) -> Sequence[Any]:
        uri = params["textDocument"]["uri"]
        path = _path(uri)
        language = self._languages.get(uri) or LANGUAGES[path.suffix]
        text = self._documents.get(uri)
        if text is None:
            text = regular_file.read_bytes(path, regular_file.MAX_SOURCE)
        symbols = symbols_of(text, grammar(language))
        return [symbol.document_symbol() for symbol in symbols]

    def _project_symbols(self, params: Any) -> Sequence[Any]:
        opened = {str(_path(uri)): text for uri, text in self._documents.items()}
        return self._project.search(params["query"], opened)


def _path(uri: str) -> Path:
    """The path of a `file:` URI."""
    path = to_path(uri, Path)
    if path is None:
        raise ValueError(f"not a file: {uri[:200]}")
    return path
