"""A remote server whose network vanishes without a word: no connection is closed, and nothing arrives any more."""

from __future__ import annotations

import pytest

from support.processes.timeouts import within
from support.servers.mcp_sources.vanishing_network import (
    CALLS,
    DEADLINE_S,
    POOL,
    in_a_network_of_its_own,
    needs_networks,
)

pytestmark = pytest.mark.processes


@needs_networks
async def test_calls_end_at_their_deadline_and_go_on_when_the_network_is_back() -> None:
    """Their connections are replaced, and nothing of them is left in the end."""
    found = await in_a_network_of_its_own(within(90))
    assert found["before"]["answered"] == CALLS
    for phase in ("during", "during, again"):
        assert found[phase]["answered"] == 0
        assert found[phase]["seconds"] < within(DEADLINE_S + 1)
    assert found["back_s"] < within(10)
    assert found["after"]["answered"] == CALLS
    assert found["settled"]["sockets"] <= found["start"]["sockets"] + POOL
    assert found["left"] == found["start"]
