"""A note for the model joins a result, and changes nothing else of it."""

from __future__ import annotations

import json

import msgspec
import pytest
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.inbound import Rejection
from support.clients.stateless_requests import REVISION, body_of, headers_of
from support.processes.workspace_app import serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.calls.outcomes import with_note

BLOCK = {"type": "text", "text": "a"}
NOTE = {"type": "text", "text": "from B"}


def test_the_note_is_the_last_block_and_unknown_members_survive() -> None:
    noted = with_note(msgspec.Raw(b'{"x":1.50,"content":[{"type":"new","y":2}],"isError":true}'), "from B")
    assert isinstance(noted, msgspec.Raw)
    assert bytes(noted).startswith(b'{"x":1.50,')
    assert json.loads(bytes(noted))["content"] == [{"type": "new", "y": 2}, NOTE]


def test_a_result_of_our_own_is_noted_and_stays_one_that_the_usual_members_are_added_to() -> None:
    noted = with_note({"content": [BLOCK], "structuredContent": {"a": 1}}, "from B")
    assert noted == {"content": [BLOCK, NOTE], "structuredContent": {"a": 1}}
    nothing = {"resultType": "task"}
    assert with_note(nothing, "from B") is nothing


async def test_a_noted_answer_is_a_whole_result_of_its_revision() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        body = body_of(names.TOOLS_CALL, {"name": "a", "arguments": {}})
        sent = {**headers_of(body), headers.NOTE: headers.encode_value("from B")}
        async with served.session.post(f"{served.base}/mcp", data=json.dumps(body), headers=sent) as response:
            result = (await response.json())["result"]
    validate_server_result(names.TOOLS_CALL, REVISION, result)
    assert result["resultType"] == "complete"
    assert result["content"][-1] == NOTE


@pytest.mark.parametrize("result", [b'{"content":null}', b'{"content":{}}', b"{}", b'{"resultType":"task"}'])
def test_a_result_without_a_list_of_content_stays_as_it_is(result: bytes) -> None:
    assert with_note(msgspec.Raw(result), "from B") == msgspec.Raw(result)


def test_without_a_note_nothing_is_read() -> None:
    broken = msgspec.Raw(b"{")
    assert with_note(broken, "") is broken
    refused = Rejection(200, -32603, "no")
    assert with_note(refused, "from B") is refused
