"""Ten thousand sessions, the default limit, have unique ids, and the next one is refused."""

from __future__ import annotations

from pathlib import Path

from manager.configuration.settings import Settings
from manager.routing.state.session_table import is_well_formed
from manager.sessions.session_manager import SessionManager
from manager.state_file.store import Store


async def test_ten_thousand_sessions_have_ten_thousand_ids(tmp_path: Path) -> None:
    """Ids are unique visible ASCII with at least 128 bits."""
    session_manager = SessionManager(Settings(), Store(tmp_path / "never-opened", set_aside_name=str))
    opened = [await session_manager.open("2025-11-25", b"", b"{}") for _ in range(10_000)]
    identities = {session.id for session in opened if session is not None}
    assert len(identities) == 10_000
    assert all(is_well_formed(one) and len(one) >= 22 for one in identities)
    assert await session_manager.open("2025-11-25", b"", b"{}") is None
