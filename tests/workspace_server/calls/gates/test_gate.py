"""The gate asks for approval first, and counts only calls that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from support.servers.mcp_sources.tool_source import ScriptedSource
from workspace_server.call_context import CallContext
from workspace_server.calls.gates.approvals import Admitted, ApprovalRequest, Approvals, InvalidAnswer
from workspace_server.calls.gates.gate import CallGate
from workspace_server.calls.gates.rate_limit import RateLimiter
from workspace_server.calls.request_state import RequestStates
from workspace_server.catalog.registry import OfferedTool
from workspace_server.config.model import Configuration
from workspace_server.tool import Tool

YES = {"approval": {"action": "accept", "content": {"approve": True}}}


async def test_rate_limited_calls_use_no_approval_and_questions_count_as_no_call(
    tmp_path: Path,
) -> None:
    tool = Tool(
        "run", {"name": "run", "inputSchema": {"type": "object"}}, requires_approval=True, rate_limited=True
    )
    offered = OfferedTool("run", tool, ScriptedSource([tool]), tool.definition)
    now = [0.0]
    approvals = Approvals(RequestStates("w", tmp_path))
    guard = CallGate(approvals, RateLimiter(per_s=1, burst=1), now=lambda: now[0], wall=lambda: 1e9)

    async def admit(state: str | None = None) -> Any:
        params = (
            {} if state is None else {"requestState": jsonrpc.raw(state), "inputResponses": jsonrpc.raw(YES)}
        )
        context = CallContext(params=params, capabilities={"elicitation": {}})
        return await guard.admit(offered, {}, context, Configuration())

    first, second = await admit(), await admit()
    assert isinstance(first, ApprovalRequest)
    assert isinstance(second, ApprovalRequest)
    assert isinstance(await admit(first.result["requestState"]), Admitted)
    refused = await admit(second.result["requestState"])
    assert isinstance(refused, Refusal)
    assert refused.reason.code == 47105
    now[0] = 1.0
    assert isinstance(await admit(second.result["requestState"]), Admitted)
    now[0] = 2.0
    assert isinstance(await admit(second.result["requestState"]), InvalidAnswer)
