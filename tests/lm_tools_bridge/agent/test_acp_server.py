"""Nothing but the protocol reaches standard output."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, os, subprocess, sys
from lm_tools_bridge.agent.acp_server import protocol_streams

async def main():
    reader, writer = await protocol_streams()
    print("printed")
    subprocess.run(["sh", "-c", "cat; echo from a child"], check=True)
    os.write(1, b"written\\n")
    writer.write(b"protocol: " + await reader.readline())
    await writer.drain()

asyncio.run(main())
"""


def test_what_is_printed_goes_to_standard_error() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=b"hello\n", capture_output=True, check=True, timeout=50
    )
    assert ended.stdout == b"protocol: hello\n"
    assert sorted(ended.stderr.split(b"\n")) == [b"", b"from a child", b"printed", b"written"]
