"""What the connections of one server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.connections.open_connections import Connections
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.parsing.head_reader import Head, HeadReader


@dataclass(frozen=True, slots=True)
class ServerContext(Generic[Head]):
    """What the connections of one server share.

    Attributes:
        heads: parses and admits heads.
        body_cap: the most bytes of a body.
        connections: the open connections, with their limits.
        deadlines: those of all connections.
        buffers: the bytes in their large buffers.
    """

    heads: HeadReader[Head]
    body_cap: int
    connections: Connections
    deadlines: Deadlines
    buffers: ByteBudget
