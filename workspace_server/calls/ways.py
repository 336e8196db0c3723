"""The ways in which a tool call runs: why each exists, and how it differs from the others.

All ways pass the same steps: view, gates, arguments, source, outcome. `Calls` and `TaskCreation` read from
this table which of the steps another program takes over. `docs/performance.md` says what the quick ways save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Way(Enum):
    """How a call came in, and how it is run."""

    REPEATED = "repeated"
    IMMEDIATE = "immediate"
    AWAITED = "awaited"
    WRAPPED = "wrapped"
    PASS_THROUGH = "pass-through"  # noqa: S105  no password
    NESTED = "nested"
    INTERNAL = "internal"


class Continuation(Enum):
    """What a call can become that outlives its request."""

    SUSPENDED = "suspended"
    """The source asked the client something. The call waits for the client's next request."""
    TASK = "task"
    """The client polls for the result (SEP-2663)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for the calls of one way.

    Attributes:
        why: the reason the way exists.
        needs_task: whether the call runs in an asyncio task, because it may have to wait.
        checks_headers: whether HTTP headers must agree with the arguments (`Mcp-Param-…`).
        checks_arguments: whether arguments are validated against the tool's input schema here.
        may_become: what the call can become when its request ends before it does.
    """

    why: str
    needs_task: bool = True
    checks_headers: bool = False
    checks_arguments: bool = True
    may_become: frozenset[Continuation] = frozenset()


_BOTH: Final = frozenset(Continuation)

RULES: Final[Mapping[Way, Rules]] = {
    Way.REPEATED: Rules(
        "A client's calls of a tool that only computes differ in id and arguments: compared, not parsed.",
        needs_task=False,
    ),
    Way.IMMEDIATE: Rules(
        "A tool that only computes never waits, so its call is answered in the connection's callback.",
        needs_task=False,
        checks_headers=True,
    ),
    Way.AWAITED: Rules(
        "Any other call of a client: gates and sources may wait for a person, a process or a server.",
        checks_headers=True,
        may_become=_BOTH,
    ),
    Way.WRAPPED: Rules(
        "Clients reach unlisted tools through `execute_tool`; headers then describe the outer call.",
        may_become=_BOTH,
    ),
    Way.PASS_THROUGH: Rules(
        "A workspace of one server shows that server as it is: the server checks its own arguments.",
        checks_headers=True,
        checks_arguments=False,
        may_become=_BOTH,
    ),
    Way.NESTED: Rules(
        "A script calls tools with its caller's rights; their questions go to the script's own caller.",
    ),
    Way.INTERNAL: Rules(
        "A program of the user calls tools over the internal channel and waits as long as that takes.",
        may_become=frozenset({Continuation.SUSPENDED}),
    ),
}
