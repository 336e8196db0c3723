"""The tool `calculator`: evaluates an arithmetic expression."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workspace_server.sources.builtin.tools.arithmetic import (
    MAX_LENGTH,
    InvalidExpression,
    cut,
    evaluate,
    number_text,
)
from workspace_server.tool import Tool, ToolError, ToolResult

# The largest integer that every JSON reader keeps exactly (RFC 8259, section 6).
_EXACT = 2**53 - 1

TOOL = Tool(
    name="calculator",
    definition={
        "name": "calculator",
        "title": "Calculator",
        "description": (
            "Calculate, exactly where possible, instead of in your head; for agents that cannot run code. "
            "+ - * / // % **, pi, e, tau, sqrt, abs, round, min, max, floor, ceil, log, log2, log10, exp, "
            'sin, cos, tan, asin, acos, atan (radians). Example: {"expression": "round(100 * 1.07 ** 5, 2)"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "value": {
                    "type": ["number", "string"],
                    "description": "The result; a string where a double could not hold it exactly.",
                }
            },
            "required": ["value"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    keywords=("calculate", "math", "arithmetic", "evaluate", "number", "formula"),
)


async def call(arguments: Mapping[str, Any]) -> ToolResult:
    """Call `call_nowait`."""
    return call_nowait(arguments)


def call_nowait(arguments: Mapping[str, Any]) -> ToolResult:
    """Compute `arguments["expression"]`.

    Returns:
        The value as text, and `{value}` as structured content. A value without a fraction is an integer
        there; beyond ±(2⁵³-1) it is the text, because a double could not hold it exactly.

    Raises:
        ToolError: `Error: Invalid expression '…'- <reason>`.
    """
    expression: str = arguments["expression"]
    try:
        value = evaluate(expression)
    except InvalidExpression as refused:
        shortened = cut(" ".join(expression[:MAX_LENGTH].split()))
        raise ToolError(
            f"Error: Invalid expression '{shortened}'- {refused}",
            {"expression": shortened, "cause": str(refused)},
        ) from refused
    if abs(value) > _EXACT:
        text = number_text(value)
        return ToolResult(text, structured={"value": text})
    if value == math.floor(value):
        value = int(value)  # 8/2 is 4, and there is no -0
    return ToolResult(number_text(value), structured={"value": value})
