"""How long and how many: the deadlines and caps of one listener, and what is said where they are reached.

Sizes are the door's (`routing/request_heads/admission.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from manager.routing.request_heads.admission import AdmissionRefusal

LATE: Final = AdmissionRefusal(408, "the request's head did not arrive in time; send it at once")
SLOW: Final = AdmissionRefusal(408, "the body did not arrive in time; send it at once")
FULL: Final = AdmissionRefusal(
    503, "too many open connections; close idle ones, then retry", (("Retry-After", "1"),)
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, and a number of connections.

    `head_s`: from the first byte of a head (on a new connection: from its opening) to the head's end.
    `body_s`: from the head's end to the body's. `keepalive_s`: an idle connection between two requests.
    `linger_s`: how long a refused caller's remaining bytes are read and dropped, so that closing does not
    destroy the answer on its way. `shutdown_s`: how long running handlers are waited for at the end.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    keepalive_s: float = 75.0
    linger_s: float = 2.0
    shutdown_s: float = 5.0
    connections: int = 512
