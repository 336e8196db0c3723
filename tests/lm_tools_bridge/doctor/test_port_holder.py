"""The VS Code extension on the manager's port."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from lm_tools_bridge.doctor.checks import all_findings
from lm_tools_bridge.doctor.port_holder import extension_on
from manager.configuration.paths import Paths

STATUS = {"ok": True, "version": "1.0.118", "instanceDetails": [{"workspaceFolders": ["/home/ada/proj"]}]}
HEALTH = {"ok": True, "toolNames": ["lm_x"], "workspaceFolders": [{"name": "proj", "path": "/home/ada/proj"}]}


@contextmanager
def serving(**answers: Any) -> Iterator[int]:
    """A program that answers `/mcp/status` and `/mcp/health` like this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.rpartition("/")[2])
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_extensions_manager_is_named_with_its_setting() -> None:
    with serving(status=STATUS) as port:
        found = extension_on(port)
    assert found is not None
    assert "manager of the VS Code extension" in found[0] and "/home/ada/proj" in found[0]
    assert "lmToolsBridge.manager.httpPort" in found[1]


def test_a_window_is_named_with_its_setting() -> None:
    with serving(health=HEALTH) as port:
        found = extension_on(port)
    assert found is not None
    assert "a VS Code window" in found[0] and "/home/ada/proj" in found[0]
    assert "lmToolsBridge.server.port" in found[1]


@pytest.mark.parametrize(
    "answers",
    [{}, {"status": b"{"}, {"status": [1]}, {"health": {"ok": True}}, {"status": {"version": "1"}},
     {"status": b"[" * 100_000}],
)  # fmt: skip
def test_other_programs_are_not_taken_for_it(answers: dict[str, Any]) -> None:
    with serving(**answers) as port:
        assert extension_on(port) is None


def test_names_that_a_terminal_would_obey_are_left_out() -> None:
    with serving(health=HEALTH | {"workspaceFolders": [{"path": "/a\x1b[31m"}]}) as port:
        found = extension_on(port)
    assert found is not None and "\x1b" not in found[0]


def test_doctor_names_a_window_on_our_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(status=STATUS) as port:
        monkeypatch.setenv("LMTB_HTTP_PORT", str(port))
        findings = {one.check: one for one in all_findings(Paths.of_user())}
    assert "taken by the manager of the VS Code extension" in findings["port"].text
    assert "lmToolsBridge.manager.httpPort" in findings["port"].hint
