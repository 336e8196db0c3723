"""Serves one editor over standard input and output until the input ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any, cast

from acp import run_agent

from lm_tools_bridge.agent.acp.editor_agent import EditorAgent
from lm_tools_bridge.agent.acp.editor_session import MakeAgent
from lm_tools_bridge.agent.acp.line_transport import LineTransport
from lm_tools_bridge.agent.acp.standard_streams import NoPipe, protocol_streams


async def serve_editor(make: MakeAgent) -> int:
    """Serve until standard input ends or a signal comes, then end everything; the exit code.

    Args:
        make: makes the agent of a session.

    Raises:
        asyncio.CancelledError: SIGTERM came.
    """
    if sys.stdin.isatty():
        sys.stderr.write("waiting for an editor on standard input; it starts this, not a person\n")
    try:
        reader, writer = await protocol_streams()
    except NoPipe as problem:
        sys.stderr.write(f"standard input and output must be pipes, as an editor gives them: {problem}\n")
        return 1
    whole = asyncio.current_task()
    if whole is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, whole.cancel)
    agent = EditorAgent(make)
    try:
        # with what the library calls unstable: session/close
        await run_agent(cast(Any, agent), LineTransport(reader, writer), use_unstable_protocol=True)
    finally:
        await agent.close()
    return 0
