"""Where a large answer of JSON goes that nobody has to read: from one connection to the other, as it comes.

In a session these are the results that the server said the trim of; all else is collected and read there
(`legacy/rounds.py`).
"""

from __future__ import annotations

from manager.answers.exchange import Exchange
from manager.routing.arrival import JSON
from manager.upstream import heap
from manager.upstream.answer import COLLECTED
from manager.upstream.flow import Sink
from manager.upstream.response import ResponseHead
from manager.web.incoming import Incoming
from manager.web.trimmed import Trimmed


def sink_of(incoming: Incoming, exchange: Exchange, head: ResponseHead, limit: int) -> Sink | None:
    """Who takes the body of the answer with this head; None where it has to be read, or is no large one.

    What a stateless client gets has begun with this, in a session it begins with the first bytes.

    Args:
        limit: bytes of the largest answer.

    Raises:
        ConnectionError: the client is gone.
    """
    length = head.content_length or 0
    if head.content_type != JSON.encode() or not COLLECTED < length <= limit:
        return None
    heap.keep()
    if exchange.session is None:
        incoming.start(head.status, exchange.headers, JSON, length)
        return incoming
    if head.trim is None or head.status != 200:
        return None
    return Trimmed(incoming, exchange.headers, exchange.message.id, head.trim, length)
