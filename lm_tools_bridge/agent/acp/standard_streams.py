"""Takes standard input and output for the protocol alone, so that nothing else can read or write there."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import IO, Final

from lm_tools_bridge.agent.acp.message_lines import LARGEST

_IN: Final = 0
_OUT: Final = 1
_ERR: Final = 2


class NoPipe(Exception):
    """Standard input or output is no pipe, socket or terminal, as an editor gives it."""


async def protocol_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams of the former standard input and output.

    From then on, whatever is printed goes to standard error, and whatever reads standard input finds its end,
    also in programs that are started.

    Raises:
        NoPipe: they cannot be waited for.
    """
    input_pipe, output_pipe = _take_stream(_IN, "rb"), _take_stream(_OUT, "wb")
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, _IN)
    os.close(null)
    os.dup2(_ERR, _OUT)
    sys.stdout = sys.stderr
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LARGEST)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), input_pipe)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), output_pipe
        )
    except (ValueError, OSError) as error:
        raise NoPipe(str(error)) from error
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _take_stream(number: int, mode: str) -> IO[bytes]:
    """A copy of a descriptor that no started program gets."""
    return os.fdopen(os.dup(number), mode, buffering=0)
