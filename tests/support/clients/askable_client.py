"""A session client that declares every capability by which a server may request input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.clients.raw_clients import SessionClient


class AskableClient(SessionClient):
    """Declares elicitation, sampling and roots, and a capability that no specification defines."""

    capabilities: Mapping[str, Any] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
        "x": {"y": 1},
    }
