"""The gate asks for approval first, and counts only calls that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from support.servers.mcp_sources.tool_source import ScriptedSource
from workspace_server.call_context import CallContext
from workspace_server.calls import gate
from workspace_server.calls.approvals import Admitted, ApprovalRequest, Approvals, InvalidAnswer
from workspace_server.calls.gate import CallGate, RateLimiter
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


def taken(limiter: RateLimiter, now: float, tool: str = "t", client: str = "c") -> int:
    count = 0
    while limiter.wait(tool, client, now) == 0:
        limiter.take(tool, client, now)
        count += 1
    return count


def test_a_burst_then_five_per_second_then_a_burst_again() -> None:
    limiter = RateLimiter()
    assert taken(limiter, 100.0) == 20
    assert limiter.wait("t", "c", 100.0) == 0.2
    assert taken(limiter, 100.1) == 0
    assert taken(limiter, 101.0) == 5
    assert taken(limiter, 1000.0) == 20


def test_each_tool_and_each_program_has_its_own_bucket() -> None:
    limiter = RateLimiter(burst=2)
    assert taken(limiter, 0.0) == taken(limiter, 0.0, tool="u") == taken(limiter, 0.0, client="d") == 2
    assert taken(limiter, 0.0) == 0


def test_a_clock_that_stands_or_goes_back_gives_nothing_and_takes_nothing() -> None:
    limiter = RateLimiter(burst=1)
    assert taken(limiter, 10.0) == 1
    assert taken(limiter, 5.0) == 0
    assert limiter.wait("t", "c", 5.0) == 0.2
    assert taken(limiter, 10.25) == 1


def test_names_without_end_take_no_memory_without_end() -> None:
    limiter = RateLimiter()
    for number in range(gate.MAX_BUCKETS + 50):
        limiter.take("t", f"c{number}", 0.0)
    assert len(limiter._buckets) == gate.MAX_BUCKETS


def test_refusal_says_how_long_to_wait() -> None:
    refusal = gate.refusal("fetch", 0.123)
    assert refusal.reason.code == 47105
    assert refusal.retry_after_ms == 123
    assert refusal.delivered == "no"
    assert "rate limited, retry after 1 s" in refusal.text
