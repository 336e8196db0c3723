"""A language server for Python as a program, which a test puts on the PATH under the name of a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from support.servers.language_servers import python_symbols
from support.servers.language_servers.in_memory import at, diagnostic

CAPABILITIES = {
    "positionEncoding": "utf-16",
    "textDocumentSync": {"openClose": True, "change": 1},
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
    "referencesProvider": True,
    "definitionProvider": True,
    "hoverProvider": True,
    "renameProvider": True,
    "diagnosticProvider": {"interFileDependencies": True, "workspaceDiagnostics": True},
}
WRONG = "wrong"
"""Each line with this word is an error."""


def put_on_path(folder: Path, name: str = "ty") -> Path:
    """An executable of this name in a new folder, which it returns."""
    folder.mkdir(parents=True)
    paths = [str(Path(__file__).parents[3]), str(Path(__file__).parents[4])]
    program = folder / name
    program.write_text(
        f"#!{sys.executable} -I\nimport sys\nsys.path[:0] = {paths!r}\n"
        "from support.servers.language_servers.python_language_server import main\nmain()\n"
    )
    program.chmod(0o755)
    return folder


def main() -> None:
    """Serve on standard input and output until that ends."""
    answers: dict[str, Callable[[Any], Any]] = {}
    while (message := _read(sys.stdin.buffer)) is not None:
        method, params = message.get("method"), message.get("params")
        if method == "initialize":
            root = to_path(params["workspaceFolders"][0]["uri"], Path) or Path()
            answers = {
                **python_symbols.python_server(root).answers,
                "initialize": lambda _: {"capabilities": CAPABILITIES},
                "shutdown": lambda _: None,
                "textDocument/diagnostic": lambda given: _report(python_symbols.file_of(given)),
                "workspace/diagnostic": lambda _, root=root: {
                    "items": [
                        {**_report(path), "uri": to_uri(path), "version": None}
                        for path in sorted(root.rglob("*.py"))
                    ]
                },
            }
        if method == "exit":
            return
        if "id" in message and isinstance(method, str):
            _write(_answer(message["id"], method, params, answers))


def _report(path: Path) -> dict[str, Any]:
    found = [
        diagnostic("this is wrong", at(number, 0, number, len(line)), source="fake")
        for number, line in enumerate(path.read_text().split("\n"))
        if WRONG in line
    ]
    return {"kind": "full", "items": found}


def _answer(identity: Any, method: str, params: Any, answers: dict[str, Callable[[Any], Any]]) -> Any:
    if method not in answers:
        return {"id": identity, "error": {"code": -32601, "message": method}}
    try:
        return {"id": identity, "result": answers[method](params)}
    except Exception as fault:  # noqa: BLE001  whatever a test asks gets an answer
        return {"id": identity, "error": {"code": -32603, "message": repr(fault)}}


def _read(stream: BinaryIO) -> Any:
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(stream.read(length)) if length else None


def _write(message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()
