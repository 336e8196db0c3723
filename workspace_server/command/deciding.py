"""Refuses decisions by programs that a server or an agent started: a model could decide through them."""

from __future__ import annotations

from host.command_line import Failure
from host.peers.own_children import are_we_own_child


def refuse_children(decision: str) -> None:
    """Raise Failure if such a program runs this command. `decision` completes "may not decide …"."""
    if are_we_own_child():
        text = f"a program that a workspace server or an agent started may not decide {decision}"
        raise Failure(text, "repeat the command in a terminal of yours", reason="forbidden")
