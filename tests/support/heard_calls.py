"""Keeps the calls that wait for a person, as servers and other hosts report them."""

from __future__ import annotations

from collections.abc import Sequence

from manager.waiting_calls import NobodyAnswers, ReportedCall


class HeardCalls(NobodyAnswers):
    """Learns of calls, and answers none."""

    def __init__(self) -> None:
        self._reported: dict[str, list[str]] = {}

    def report_calls(self, instance: str, host: str | None, reported: Sequence[ReportedCall]) -> None:
        self._reported[instance] = [f"{host}:{row.call.id}" for row in reported]

    def forget(self, instance: str) -> None:
        self._reported.pop(instance, None)

    def ids(self) -> list[str]:
        """`HOST:ID` of each call that waits."""
        return [identity for identities in self._reported.values() for identity in identities]
