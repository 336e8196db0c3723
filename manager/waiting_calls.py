"""What the manager has of calls that wait for a person: who learns of them, and who takes the answers.

The server of a project asks for the approval and decides whether the call runs. Here is only the seam: the
feature `approvals` shows the calls and answers them. Without it nobody does (`NobodyAnswers`): a call whose
client cannot be asked is refused at once, and any other is asked about in its client alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

UNKNOWN_END: Final = "no such call waits, or no longer: its client answered, or it ended"


class ReportedApproval(msgspec.Struct, frozen=True):
    """A call as its server reports it; times are in seconds since 1970.

    Attributes:
        question: the tool and its arguments.
        waits: whether the call waits in its server; else its client was asked, and repeats it.
        approved: the answer from elsewhere, which a call that does not wait has not taken yet.
    """

    id: str
    tool: str
    client: str
    question: str
    since: float
    until: float
    waits: bool
    approved: bool | None = None


class ReportedCall(msgspec.Struct, frozen=True):
    """A call, and the project that it is of."""

    workspace: str
    root: str
    call: ReportedApproval


class AnswerResult(NamedTuple):
    """What became of an answer.

    Attributes:
        ok: whether it counts.
        outcome: a word for programs.
        text: a sentence for the person.
        call: the call that was answered, as `WaitingCalls.as_json` shows it, without its age.
    """

    ok: bool
    outcome: str
    text: str
    call: Mapping[str, Any] | None = None


class WaitingCalls(Protocol):
    """Learns of the calls that wait for a person, shows them, and takes the answers."""

    @property
    def wait_s(self) -> float:
        """Seconds that a call waits for an answer if its client cannot be asked; 0 refuses it at once."""

    def report(self, instance: str, workspace: str, root: str, message: bytes) -> None:
        """Take a notification of a server. It names all of its calls; others end. Unknown ones are ignored.

        Args:
            instance: the run of the server.
        """

    def report_calls(self, instance: str, host: str | None, reported: Sequence[ReportedCall]) -> None:
        """Take what the server of a project, or the manager on another host, says of all of its calls.

        Args:
            instance: the run of the server, or the line to the host.
            host: the name that the user gave the host; None for this machine.
        """

    def forget(self, instance: str) -> None:
        """Remove the calls of a server or a host that is gone."""

    def watch(self, identity: str) -> asyncio.Future[None]:
        """A future that is done when a call was answered elsewhere than in its client. `unwatch` ends it."""

    def unwatch(self, identity: str) -> None:
        """End a watch. Idempotent."""

    def as_json(self, wall: float) -> list[dict[str, Any]]:
        """The calls for the status: without arguments, with ages at `wall`, in seconds since 1970."""

    def questions(self) -> list[dict[str, Any]]:
        """The calls with their arguments, for the person who answers."""

    async def answer(self, identity: str, *, approve: bool, where: str) -> AnswerResult:
        """Answer a call that waits; the first answer counts.

        Args:
            where: where the person answered, such as "on the page".
        """


class NobodyAnswers:
    """Nobody learns of the calls that wait, so none is answered here."""

    wait_s = 0.0

    def report(self, instance: str, workspace: str, root: str, message: bytes) -> None:
        """See `WaitingCalls`."""

    def report_calls(self, instance: str, host: str | None, reported: Sequence[ReportedCall]) -> None:
        """See `WaitingCalls`."""

    def forget(self, instance: str) -> None:
        """See `WaitingCalls`."""

    def watch(self, identity: str) -> asyncio.Future[None]:
        """See `WaitingCalls`: a future that is never done."""
        return asyncio.get_running_loop().create_future()

    def unwatch(self, identity: str) -> None:
        """See `WaitingCalls`."""

    def as_json(self, wall: float) -> list[dict[str, Any]]:
        """See `WaitingCalls`: there are none."""
        return []

    def questions(self) -> list[dict[str, Any]]:
        """See `WaitingCalls`: there are none."""
        return []

    async def answer(self, identity: str, *, approve: bool, where: str) -> AnswerResult:
        """See `WaitingCalls`: no answer counts."""
        return AnswerResult(False, "gone", f"Nothing was changed: {UNKNOWN_END}.")


NOBODY: Final[WaitingCalls] = NobodyAnswers()
