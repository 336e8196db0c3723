"""`python -I -m lm_tools_bridge.code_intelligence.outline`: a language server on standard input."""

from __future__ import annotations

import os
import sys
from typing import Final

import msgspec

from lm_tools_bridge.code_intelligence.outline.language_server import OutlineServer
from lm_tools_bridge.protocol.content_length import ContentLengthSplitter, frame

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Bytes of a message: as for the servers of others (`wire/connection.py`)."""
_CHUNK: Final = 64 * 1024
"""Bytes of one read: what a pipe of Linux holds."""


def main() -> int:
    """Serve until `exit` or the end of standard input; 1 if the input cannot be read as messages."""
    server, splitter = OutlineServer(), ContentLengthSplitter(MAX_MESSAGE)
    while chunk := os.read(0, _CHUNK):
        for message in splitter.feed(chunk):
            if not isinstance(message, bytes) or not _serve(server, message):
                return 1
            if server.ended:
                return 0
        if splitter.broken is not None:
            sys.stderr.write(f"{splitter.broken}\n")
            return 1
    return 0


def _serve(server: OutlineServer, message: bytes) -> bool:
    """Answer one message; False if it is none."""
    try:
        answer = server.handle(msgspec.json.decode(message, type=dict[str, object]))
    except msgspec.DecodeError as fault:
        sys.stderr.write(f"unreadable message: {fault}\n")
        return False
    if answer is not None:
        sys.stdout.buffer.write(frame(msgspec.json.encode(answer)))
        sys.stdout.buffer.flush()
    return True


if __name__ == "__main__":
    sys.exit(main())
