"""Names how a request to the manager can fail, by whether it may have been delivered."""

from __future__ import annotations


class Undelivered(Exception):
    """The request certainly had no effect, so it may be sent again. The message says why, for a person.

    `retry_after_s`: how long the manager asked to wait, None where it said nothing.
    """

    def __init__(self, cause: str, retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.retry_after_s = retry_after_s


class SessionEnded(Undelivered):
    """The manager does not know the session (any more); a new one has to be opened."""


class Refused(Exception):
    """The manager refuses the request; sending it again would not help."""


class AnswerLost(Exception):
    """The connection ended before the response came: the request may have been executed."""
