"""What passes between the manager and the template, the process that workspace servers are forked from.

They speak over a socket that keeps messages apart: an order is one message with its descriptors, and so is
each report. The orders of the server itself go to its standard input as with any other
(`protocol.internal.launch`).
"""

from __future__ import annotations

from typing import Final

import msgspec

DESCRIPTORS: Final = 4
"""What comes with an order: the listening socket, standard input, the log, the working folder."""
MESSAGE_LIMIT: Final = 1024 * 1024


class ForkRequest(msgspec.Struct, frozen=True):
    """The order to fork one workspace server.

    Attributes:
        instance: id of its run, which its process is marked with.
        listen_fd: the number it is to find the listening socket under.
        environ: its whole environment, as `NAME=value` with a zero byte after each.
    """

    instance: str
    listen_fd: int
    environ: bytes


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The template can fork from now on."""


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """A server says that it leads a session of its own; a descriptor of its process comes along."""

    instance: str
    pid: int


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The template has waited for a server that ended; a negative code is the signal."""

    instance: str
    code: int


Report = Ready | Forked | Exited

_decode_order = msgspec.json.Decoder(ForkRequest).decode
_decode_report: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def encode(message: ForkRequest | Report) -> bytes:
    """The one message."""
    return msgspec.json.encode(message)


def decode_request(message: bytes) -> ForkRequest:
    """Read an order.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decode_order(message)


def decode_report(message: bytes) -> Report:
    """Read a report.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decode_report.decode(message)
