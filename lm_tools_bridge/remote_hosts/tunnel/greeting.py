"""The line by which the program on another host introduces itself, before the first frame. Pure.

Shells and logins may print their own text before it (a message of the day, for example). That is skipped up
to `MAX_NOISE` bytes, and kept for people in case no greeting comes.
"""

from __future__ import annotations

from typing import Final

import msgspec

PROTOCOL: Final = 1
"""Version of what is spoken over the line; both sides must have the same."""
MAX_NOISE: Final = 64 * 1024
"""Messages of the day have a few kilobytes."""
MAX_LINE: Final = 4096
"""A greeting has a version, names and a sentence: a few hundred bytes."""
_MARK: Final = b"LMTB-REMOTE "


class Greeting(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the other side says of itself.

    Attributes:
        protocol: see `PROTOCOL`.
        version: of its program.
        host: the name of its machine.
        user: the login it runs as.
        problem: why it cannot serve, for people; None if it can.
    """

    protocol: int
    version: str
    host: str = ""
    user: str = ""
    problem: str | None = None


class NoGreeting(msgspec.Struct, frozen=True):
    """No greeting came.

    Attributes:
        noise: the end of what came instead, for people only: another host wrote it.
    """

    noise: bytes


def encode(greeting: Greeting) -> bytes:
    """The greeting as a line."""
    return _MARK + msgspec.json.encode(greeting) + b"\n"


class GreetingReader:
    """Finds the greeting in what arrives."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> tuple[Greeting, bytes] | NoGreeting | None:
        """Take what arrived.

        Returns:
            The greeting and the bytes behind it; `NoGreeting` if none can come any more; None if it is not
            complete.
        """
        self._received += data
        begin = self._received.find(_MARK)
        if begin < 0:
            return self.ended() if len(self._received) > MAX_NOISE else None
        end = self._received.find(b"\n", begin)
        if end < 0 or end - begin > MAX_LINE:
            is_hopeless = len(self._received) - begin > MAX_LINE or begin > MAX_NOISE
            return self.ended() if is_hopeless else None
        line = bytes(self._received[begin + len(_MARK) : end])
        try:
            return msgspec.json.decode(line, type=Greeting), bytes(self._received[end + 1 :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.ended()

    def ended(self) -> NoGreeting:
        """The result if nothing more arrives."""
        return NoGreeting(bytes(self._received[-1024:]))
