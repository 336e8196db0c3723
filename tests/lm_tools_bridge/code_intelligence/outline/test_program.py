"""Tests of the outline server as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.kinds.table import OUTLINE


def run(given: bytes) -> subprocess.CompletedProcess[bytes]:
    (command,) = OUTLINE.commands
    return subprocess.run(command, input=given, capture_output=True, timeout=30, check=False)


def framed(*messages: Any) -> bytes:
    bodies = [json.dumps(message).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


def answers(output: bytes) -> list[Any]:
    found = []
    while output:
        head, _, rest = output.partition(b"\r\n\r\n")
        size = int(head.split(b":")[1])
        found.append(json.loads(rest[:size]))
        output = rest[size:]
    return found


def test_it_answers_on_standard_output_until_exit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(): ...\n")
    started = {"capabilities": {"general": {"positionEncodings": ["utf-8"]}}}
    document = {"textDocument": {"uri": (tmp_path / "a.py").as_uri()}}
    done = run(
        framed(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": started},
            {"jsonrpc": "2.0", "id": 2, "method": "textDocument/documentSymbol", "params": document},
            {"jsonrpc": "2.0", "method": "exit"},
            {"jsonrpc": "2.0", "id": 3, "method": "shutdown"},
        )
    )
    first, second = answers(done.stdout)  # nothing follows `exit`
    assert first["result"]["capabilities"]["positionEncoding"] == "utf-8"
    assert [one["name"] for one in second["result"]] == ["f"]
    assert (done.returncode, done.stderr) == (0, b"")


def test_end_of_input_ends_it() -> None:
    assert run(b"").returncode == 0


def test_input_that_is_no_message_ends_it_with_the_reason() -> None:
    assert run(b"Content-Length: 3\r\n\r\nabc").stderr.startswith(b"unreadable message")
    assert run(b"Content-Length: x\r\n\r\n").returncode == 1


def test_it_runs_in_the_interpreter_of_this_program() -> None:
    assert OUTLINE.commands[0][0] == sys.executable
