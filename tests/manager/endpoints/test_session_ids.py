"""Ten thousand sessions, the default limit, have unique ids, and the next one is refused."""

from __future__ import annotations

from pathlib import Path

from manager.configuration.settings import Settings
from manager.routing.state.session_table import is_well_formed
from manager.sessions.session_manager import SessionManager
from manager.state_file import Store


async def test_ten_thousand_sessions_have_ten_thousand_ids(tmp_path: Path) -> None:
    """Ids are unique visible ASCII with at least 128 bits."""
    session_manager = SessionManager(Settings(), Store(tmp_path / "never-opened", set_aside_name=str))
    clients = [b'{"name": "client-%d"}' % (number % 4) for number in range(10_000)]
    opened = [await session_manager.open("2025-11-25", client, b"{}") for client in clients]
    identities = {session.id for session in opened if session is not None}
    assert len(identities) == 10_000
    assert all(is_well_formed(one) and len(one) >= 22 for one in identities)
    for session in session_manager.sessions:
        session.used = True
    assert await session_manager.open("2025-11-25", b"", b"{}") is None
