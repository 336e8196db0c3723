"""Runs the part of the demo about what was seen: one recorded call, and the address of the page."""

from __future__ import annotations

import json
from collections.abc import Callable

from lm_tools_bridge.demo.sandbox import Sandbox
from lm_tools_bridge.text.quantities import latency


def show_record(sandbox: Sandbox, address: str, tell: Callable[[str], None]) -> None:
    """Show the last recorded call of the tour, and where the page is.

    Args:
        address: the URL of the MCP endpoint.

    Raises:
        RuntimeError: no call is recorded.
    """
    done = sandbox.run(["calls", "-n", "1", "--json"], sandbox.folder)
    calls = json.loads(done.stdout or "{}").get("calls")
    if not calls:
        raise RuntimeError(f"no call is recorded: {done.stdout}{done.stderr}")
    call = calls[0]
    what = f"{call['tool']} of {call['client']} in {call['project']}, {latency(call['took'] / 1000)}"
    tell(f"Every call is on record. The last one: {what}, {call['outcome']} (lmtb calls).")
    tell(f"In a browser, the page shows all of this: {address.removesuffix('mcp')} (lmtb ui).")
