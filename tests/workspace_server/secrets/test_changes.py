"""Changes are reported by key, whoever made them."""

from __future__ import annotations

from pathlib import Path

from workspace_server.secrets.changes import SecretChanges
from workspace_server.secrets.store import open_store


async def test_each_change_is_reported_once_whoever_made_it(tmp_path: Path) -> None:
    mine, another = open_store(tmp_path, {}), open_store(tmp_path, {})
    await another.set("old", "1")
    changes = SecretChanges(mine)
    assert await changes.poll() == []
    await another.set("old", "1")
    await mine.set("new", "2")
    assert await changes.poll() == [("new", "added"), ("old", "changed")]
    assert await changes.poll() == []
    await another.delete("old")
    assert await changes.poll() == [("old", "removed")]


async def test_a_store_that_cannot_be_read_has_not_changed(tmp_path: Path) -> None:
    store = open_store(tmp_path, {})
    await store.set("a", "1")
    changes = SecretChanges(store)
    await changes.poll()
    key = tmp_path / "secrets" / "secrets.key"
    content = key.read_bytes()
    key.unlink()
    (tmp_path / "secrets" / "secrets.sealed").touch()
    assert await changes.poll() == []
    key.write_bytes(content)
    key.chmod(0o600)
    await store.set("a", "2")
    assert await changes.poll() == [("a", "changed")]
