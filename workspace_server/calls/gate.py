"""Decides whether a call may run: combines approvals and rate limits."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.token_bucket import TokenBucket
from workspace_server.call_context import CallContext
from workspace_server.calls.approvals import Admitted, Approvals, Decision
from workspace_server.catalog.registry import OfferedTool
from workspace_server.config.model import Approval, Configuration
from workspace_server.tool import Tool

# Names of clients are the callers' input: without a bound, new names would fill the memory. A dropped bucket
# is full again, so fewer buckets would let busy clients past the limit.
MAX_BUCKETS: Final = 4096


class RateLimiter:
    """Token buckets.

    Args:
        per_s: sustained calls per second.
        burst: calls that may be made at once after a pause.
    """

    def __init__(self, per_s: float = 5.0, burst: int = 20) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    def wait(self, tool: str, client: str, now: float) -> float:
        """Seconds until a call may be made, 0.0 if it may be made now. Takes nothing.

        Args:
            tool: the tool's offered name.
            client: the calling program's name.
            now: monotonic seconds.
        """
        return self._bucket(tool, client, now).wait_s(now)

    def take(self, tool: str, client: str, now: float) -> None:
        """Count one call."""
        bucket = self._bucket(tool, client, now)
        bucket.left(now)
        bucket.spend()

    def _bucket(self, tool: str, client: str, now: float) -> TokenBucket:
        key = (tool, client)
        bucket = self._buckets.setdefault(key, TokenBucket(self._per_s, self._burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)  # unused for longest, so most likely full again
        return bucket


def refusal(name: str, wait_s: float) -> Refusal:
    """The refusal for a caller who has to wait."""
    text = f"{name} is rate limited, retry after {max(1, math.ceil(wait_s))} s"
    return Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=math.ceil(wait_s * 1000))


def policy(
    name: str,
    tool: Tool,
    approvals: Mapping[str, Approval],
    arguments: Mapping[str, Any] | None = None,
) -> Approval:
    """The decision for a tool: the user's, or else what the tool itself declares.

    Args:
        name: its offered name.
        approvals: the user's decisions by offered name (`Configuration.approvals`).
        arguments: those of the call; None for any call.
    """
    if decided := approvals.get(name):
        return decided
    if not tool.requires_approval or (arguments is not None and tool.is_harmless(arguments)):
        return "allow"
    return "ask"


class Gate:
    """Decides about each call just before it runs. This one admits every call."""

    def is_open(self, offered: OfferedTool, configuration: Configuration) -> bool:
        """Whether `admit` admits every call of a tool that brings no answers, for any caller at any time."""
        return True

    async def admit(
        self,
        offered: OfferedTool,
        arguments: Mapping[str, Any],
        context: CallContext,
        configuration: Configuration,
    ) -> Decision:
        """Decide whether the call may run now, and with which context."""
        return Admitted(context)

    @staticmethod
    def recheck(approved: Tool, now: OfferedTool, configuration: Configuration) -> Refusal | None:
        """The refusal of a call that a person approved, if the tool was denied or changed meanwhile."""
        if configuration.approvals.get(now.name) == "deny":
            text = f"the user's settings do not allow {now.name}"
            return Refusal(Reason.APPROVAL_DENIED, text, delivered="no")
        if now.tool.fingerprint != approved.fingerprint:
            text = f"{now.name} was changed while it waited for approval; it did not run"
            return Refusal(Reason.APPROVAL_REQUIRED, text, "call again", delivered="no")
        return None


class CallGate(Gate):
    """Applies approvals and rate limits.

    Args:
        approvals: asks people, and verifies their answers.
        limiter: the rate limits.
        now: monotonic seconds, for rate limits.
        wall: seconds since 1970, for answers that may arrive after a restart.
    """

    def __init__(
        self,
        approvals: Approvals,
        limiter: RateLimiter,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._approvals = approvals
        self._limiter = limiter
        self._now = now
        self._wall = wall

    def is_open(self, offered: OfferedTool, configuration: Configuration) -> bool:
        """See `Gate`."""
        tool = offered.tool
        return not tool.rate_limited and policy(offered.name, tool, configuration.approvals) == "allow"

    async def admit(
        self,
        offered: OfferedTool,
        arguments: Mapping[str, Any],
        context: CallContext,
        configuration: Configuration,
    ) -> Decision:
        """See `Gate`. A rate limited call asks nobody, and only calls that run count towards the limit."""
        name, tool = offered.name, offered.tool
        counts = tool.rate_limited and not self._approvals.resumes(context)
        if counts and (seconds := self._limiter.wait(name, context.client, self._now())):
            return refusal(name, seconds)
        decided = policy(name, tool, configuration.approvals, arguments)
        if decided == "allow" and not counts and "requestState" not in context.params:
            return Admitted(context)  # most calls
        decision = await self._approvals.decide(name, tool, decided, arguments, context, self._wall())
        if counts and isinstance(decision, Admitted):
            self._limiter.take(name, context.client, self._now())
        return decision
