"""What a server may ask a client in the middle of a request, and what the client must have declared for it.

Three questions exist: `elicitation/create`, `sampling/createMessage`, `roots/list` (2026-07-28, rounds of one
request). Who puts a question to whom, and when, is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names

Capabilities = Mapping[str, Any]
"""Client capabilities as an object: `{"elicitation": {"form": {}}}`."""


def _elicitation(params: Mapping[str, msgspec.Raw]) -> Capabilities:
    mode = jsonrpc.text_of(params["mode"]) if "mode" in params else None
    return {"elicitation": {"url" if mode == "url" else "form": {}}}


_NEEDED: Final[Mapping[str, Callable[[Mapping[str, msgspec.Raw]], Capabilities]]] = {
    names.ELICIT: _elicitation,
    names.SAMPLE: lambda _: {"sampling": {}},
    names.ROOTS_LIST: lambda _: {"roots": {}},
}
QUESTIONS: Final = frozenset(_NEEDED)


def needed(method: str, params: bytes | msgspec.Raw) -> Capabilities:
    """The capabilities that a question of `QUESTIONS` needs, as `requiredCapabilities` names them.

    Args:
        params: its parameters as JSON text, empty when absent.
    """
    return _NEEDED[method](jsonrpc.members_of(params))


def is_declared(required: Capabilities, declared: bytes | msgspec.Raw) -> bool:
    """Whether a client with these capabilities (JSON text) declared what is needed.

    `elicitation: {}` means forms: it says nothing of modes because it is older than them.
    """
    have = jsonrpc.members_of(declared)
    for name, modes in required.items():
        if name not in have:
            return False
        own = jsonrpc.members_of(have[name])
        if not all(mode in own or (mode == "form" and not own) for mode in modes):
            return False
    return True


def spelt(required: Capabilities) -> str:
    """Capabilities as a person reads them: `elicitation.url, sampling`."""
    words = [
        f"{name}.{mode}" if mode else name
        for name, modes in required.items()
        for mode in (modes if isinstance(modes, Mapping) and modes else [""])
    ]
    return ", ".join(words)
