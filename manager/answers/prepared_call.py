"""Prepares a call for its workspace server once: it is sent now, or as soon as that is possible.

Whoever answers the call keeps this one object: the direct relay, a task, or the fast path that sent it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from lm_tools_bridge.protocol.errors import Refusal
from manager.answers import result_format
from manager.answers.exchange import Exchange, Located, Relayed, Reply
from manager.answers.upstream_request import cancelled_notification, upstream_request
from manager.forwarding.answer import Answer
from manager.forwarding.forward import Forwarder, Outgoing
from manager.forwarding.forwarded_call import ForwardedCall


class PreparedCall:
    """One request of a client whose workspace is decided, from then to its reply.

    Args:
        forwarder: sends it.
        exchange: the request as the client made it.
        located: its workspace.
        params: the parameters to send instead of the client's own, if a call was unwrapped.
        sent: the call in flight, if the fast path wrote and sent its request.

    Attributes:
        exchange: the request as the client made it.
        located: its workspace.
        in_flight: the call once it was sent without waiting; not set before.
    """

    __slots__ = ("_forwarder", "_outgoing", "_params", "exchange", "in_flight", "located")

    in_flight: ForwardedCall

    def __init__(
        self,
        forwarder: Forwarder,
        exchange: Exchange,
        located: Located,
        params: Mapping[str, msgspec.Raw] | None = None,
        sent: ForwardedCall | None = None,
    ) -> None:
        self._forwarder = forwarder
        self._params = params
        self._outgoing: Outgoing | None = None
        self.exchange = exchange
        self.located = located
        if sent is not None:
            self.in_flight = sent

    @property
    def is_sent(self) -> bool:
        """Whether it is in flight, sent without waiting."""
        return hasattr(self, "in_flight")

    @property
    def outgoing(self) -> Outgoing:
        """The request to the workspace server, written once."""
        if self._outgoing is None:
            self._outgoing = upstream_request(self.exchange, self._params)
        return self._outgoing

    def send_now(self) -> bool:
        """Send it if nothing has to be waited for; return whether it was sent."""
        call = self._forwarder.send_now(self.located.workspace, self.outgoing)
        if call is None:
            return False
        self.in_flight = call
        return True

    async def reply(self) -> Reply:
        """The reply, once its head has arrived. A call that is not in flight is sent as soon as possible."""
        if self.is_sent:
            answer = await self._forwarder.arrival(self.in_flight)
        else:
            answer = await self._forwarder.send(self.located.workspace, self.outgoing)
        return self.reply_to(answer)

    def reply_to(self, answer: Answer | Refusal) -> Reply:
        """The reply with this answer of the workspace server."""
        if isinstance(answer, Refusal):
            return result_format.refuse(self.exchange, answer)
        return Relayed(answer, self._send_again, self._give_up)

    async def _send_again(self, more: Mapping[str, msgspec.Raw]) -> Answer | Refusal:
        """Send it with further parameters: the answers to input requests of the server."""
        exchange, params = self.exchange, self._params or self.exchange.params
        exchange.begun = time.monotonic()  # the time that the client needed for its input does not count
        repeated = upstream_request(exchange, {**params, **more})
        return await self._forwarder.send(self.located.workspace, repeated)

    async def _give_up(self, state: msgspec.Raw) -> None:
        """Cancel the suspended call. A stopped server has none, so it is not started for this."""
        workspace = self.located.workspace
        if workspace.supervisor.is_serving:
            answer = await self._forwarder.send(workspace, cancelled_notification(state))
            if not isinstance(answer, Refusal):
                await answer.aclose("ok")
