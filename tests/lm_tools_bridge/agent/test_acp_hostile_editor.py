"""The agent in an editor meets lines that are no messages, unknown methods, and very long prompts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.acp_server import LARGEST
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import AgentDesk, agent_desk
from support.servers.models.formats.steps import say

pytestmark = [pytest.mark.timeout(120), pytest.mark.terminals]
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


def spoken(desk: AgentDesk, *lines: bytes) -> list[dict[str, Any]]:
    """All that the agent writes to standard output for these lines, until its input ends."""
    command = [sys.executable, "-I", "-m", "manager", "agent", "acp"]
    ended = subprocess.run(
        command, env=desk.environ, input=b"".join(line + b"\n" for line in lines), capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_lines_that_are_no_message_are_answered_and_the_next_ones_read(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    bad = {
        b"garbage": -32700, b"\xff\xfe": -32700, line({"jsonrpc": "2.0", "id": 1, "method": "\ud800"}): -32700,
         b"[" * 100_000: -32700, b"[]": -32600, b"5": -32600,
        line({"jsonrpc": "2.0", "id": [], "method": "initialize"}): -32600,
        line({"jsonrpc": "2.0", "id": {}, "result": 1}): -32600,
        line({"jsonrpc": "2.0", "id": 7, "error": "text"}): -32600,
        b'"' + b"x" * (LARGEST + MIB) + b'"': -32600,
    }  # fmt: skip
    with agent_desk(manager, tmp_path) as desk:
        answers = spoken(desk, *bad, b"", line({"jsonrpc": "2.0", "id": 9, "result": None}), line(INITIALIZE))
    refused = [answer for answer in answers if "error" in answer]
    assert [answer["error"]["code"] for answer in refused] == list(bad.values())
    assert [answer["result"]["protocolVersion"] for answer in answers if answer["id"] == 1] == [1]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such/method", {}, -32601),
        ("_extension", {}, -32601),
        ("authenticate", {"methodId": "x"}, -32601),
        ("session/new", {"cwd": 5}, -32602),
        ("session/new", {"cwd": "/no/such\u0000folder", "mcpServers": []}, -32602),
        ("session/load", {"sessionId": "../../x", "cwd": "/", "mcpServers": []}, -32602),
    ],
)
def test_requests_that_cannot_be_answered_get_an_error(
    manager: ManagerProcess, tmp_path: Path, method: str, params: dict[str, Any], code: int
) -> None:
    with agent_desk(manager, tmp_path) as desk:
        request = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        [answer] = asyncio.run(answered(desk, request))
        assert answer["error"]["code"] == code


def test_a_prompt_of_1_mib_is_answered_and_so_is_the_next(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("one"), say("two")) as desk:
        new = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": str(desk.project), "mcpServers": []},
        }

        def prompt(answers: list[dict[str, Any]], number: int, text: str) -> dict[str, Any]:
            session = next(answer["result"]["sessionId"] for answer in answers if answer.get("id") == 2)
            params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
            return {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}

        answers = asyncio.run(
            answered(
                desk, INITIALIZE, new, lambda known: prompt(known, 3, "word " * (MIB // 5)),
                lambda known: prompt(known, 4, "short"),
            )
        )  # fmt: skip
        by_id = {answer["id"]: answer for answer in answers if "id" in answer}
        assert "result" in by_id[3] or "error" in by_id[3]
        assert by_id[4]["result"] == {"stopReason": "end_turn"}


async def answered(desk: AgentDesk, *requests: Any) -> list[dict[str, Any]]:
    """What the agent wrote while it answered these requests, each sent after the answer to the one before."""
    command = [sys.executable, "-I", "-m", "manager", "agent", "acp"]
    process = await asyncio.create_subprocess_exec(
        *command, env=desk.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=16 * MIB
    )
    assert process.stdin is not None
    assert process.stdout is not None
    known: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(60):
            for one in requests:
                request = one(known) if callable(one) else one
                process.stdin.write(line(request) + b"\n")
                while not known or known[-1].get("id") != request["id"]:
                    known.append(json.loads(await process.stdout.readline()))
            process.stdin.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return known
