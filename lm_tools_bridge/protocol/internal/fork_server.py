"""Messages between the manager and the fork server, the process that workspace servers are forked from.

They travel over a SOCK_SEQPACKET socket: each request and each report is one message with its descriptors. A
forked server reads its launch instructions from standard input, like a spawned one
(`lm_tools_bridge/protocol/internal/launch.py`).
"""

from __future__ import annotations

from typing import Final

import msgspec

DESCRIPTORS: Final = 4
"""Descriptors sent with a request: listening socket, standard input, log file, working folder."""
# SOCK_SEQPACKET cuts what exceeds the receiver's buffer; an ordinary environment (`execve` allows 128 KiB a
# variable) with arguments fits.
MESSAGE_LIMIT: Final = 1024 * 1024


class ForkRequest(msgspec.Struct, frozen=True):
    """The request to fork one workspace server.

    Attributes:
        instance: the instance id, which marks the process.
        listen_fd: the descriptor number that the listening socket must get.
        environ: the complete environment: `NAME=value`, a zero byte after each.
    """

    instance: str
    listen_fd: int
    environ: bytes


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The fork server can fork from now on."""


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """A server was forked and has its own session. The message carries its pidfd."""

    instance: str
    pid: int


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """A forked server exited. A negative code is the signal."""

    instance: str
    code: int


Report = Ready | Forked | Exited

_decode_request = msgspec.json.Decoder(ForkRequest).decode
_decode_report: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def encode(message: ForkRequest | Report) -> bytes:
    """Encode a message."""
    return msgspec.json.encode(message)


def decode_request(message: bytes) -> ForkRequest:
    """Decode a fork request.

    Raises:
        msgspec.DecodeError: the message is not a fork request.
    """
    return _decode_request(message)


def decode_report(message: bytes) -> Report:
    """Decode a report.

    Raises:
        msgspec.DecodeError: the message is not a report.
    """
    return _decode_report.decode(message)
