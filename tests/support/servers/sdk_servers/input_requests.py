"""Asks the client of an SDK server something in the middle of a request, in both eras.

For a client with a session the question is a request from the server (`put`); for a stateless client it is an interim
result, and the answer comes with the repeated request. `Dialogue` hides the difference.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from support.servers.sdk_servers.serving import MODERN

Json = dict[str, Any]
Questions = Mapping[str, Json]
"""Key -> method and params of a question."""
CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared to be asked by this method."""
MISSING_CAPABILITY = -32021


@dataclass(frozen=True)
class Dialogue:
    """Questions in rounds.

    Attributes:
        rounds: from the arguments of the request; the questions of one round are asked together.
        stateful: answers count only if they come with the state of the round before.
        optional: what a client cannot be asked is left out; otherwise the request is refused.
    """

    rounds: Callable[[Json], list[Questions]]
    stateful: bool = False
    optional: bool = False

    async def hold(self, ctx: Any, params: Any) -> tuple[Json | None, Json]:
        """Ask as far as this request allows.

        Returns:
            An interim result to answer with, or None; and the answers by key.

        Raises:
            MCPError: the client did not declare what a question needs.
        """
        rounds = [self._possible(ctx, one) for one in self.rounds(params.arguments or {})]
        if ctx.protocol_version != MODERN:
            return None, await _all_asked(ctx, rounds)
        told = json.loads(params.request_state or "{}")
        if params.request_state or not self.stateful:
            told |= {key: plain(answer) for key, answer in (params.input_responses or {}).items()}
        for questions in rounds:
            missing = {key: question for key, question in questions.items() if key not in told}
            if missing:
                return interim(missing, json.dumps(told) if self.stateful else None), told
        return None, told

    def _possible(self, ctx: Any, questions: Questions) -> Questions:
        declared = ctx.session.client_capabilities
        lacking = {
            CAPABILITIES[question["method"]]
            for question in questions.values()
            if getattr(declared, CAPABILITIES[question["method"]], None) is None
        }
        if lacking and not self.optional:
            from mcp.shared.exceptions import MCPError

            required: Json = {"requiredCapabilities": {name: {} for name in sorted(lacking)}}
            raise MCPError(MISSING_CAPABILITY, "The client cannot be asked", required)
        return {
            key: question
            for key, question in questions.items()
            if CAPABILITIES[question["method"]] not in lacking
        }


async def _all_asked(ctx: Any, rounds: list[Questions]) -> Json:
    told: Json = {}
    for questions in rounds:
        answers = await asyncio.gather(*(put(ctx, question) for question in questions.values()))
        told |= dict(zip(questions, answers, strict=True))
    return told


def interim(questions: Questions, state: str | None) -> Json:
    """The result that asks, of the stateless era."""
    asked = {"resultType": "input_required", "inputRequests": dict(questions)}
    return asked | ({"requestState": state} if state is not None else {})


async def put(ctx: Any, question: Json) -> Json:
    """Ask by a request of the server's own, on the stream of the request under way; the result."""
    import mcp_types as types
    from mcp.shared.message import ServerMessageMetadata
    from pydantic import TypeAdapter

    expected: Any = {
        "elicitation/create": types.ElicitResult,
        "sampling/createMessage": types.CreateMessageResult,
        "roots/list": types.ListRootsResult,
    }[question["method"]]
    request: Any = TypeAdapter(types.ServerRequest).validate_python(question)
    about = ServerMessageMetadata(related_request_id=ctx.request_id)
    return plain(await ctx.session.send_request(request, expected, metadata=about))


def plain(model: Any) -> Json:
    """A result as JSON, without what only its era adds."""
    dumped: Json = (
        model if isinstance(model, dict) else model.model_dump(by_alias=True, mode="json", exclude_none=True)
    )
    return {key: value for key, value in dumped.items() if key not in ("resultType", "_meta")}
