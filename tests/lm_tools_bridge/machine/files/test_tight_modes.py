"""Modes that another program changed are private again at the next start."""

from __future__ import annotations

import stat
from pathlib import Path

from lm_tools_bridge.machine.files.tight_modes import make_tight


def test_files_are_private_again_and_links_are_not_followed(tmp_path: Path) -> None:
    outside, ours = tmp_path / "outside", tmp_path / "state"
    outside.touch(0o644)
    (ours / "deep").mkdir(parents=True)
    ours.chmod(0o755)
    (ours / "key").touch()
    (ours / "key").chmod(0o644)
    (ours / "deep" / "program").touch()
    (ours / "deep" / "program").chmod(0o700)
    (ours / "deep").chmod(0)
    (ours / "link").symlink_to(outside)
    assert make_tight(ours) == 3
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ours, *sorted(ours.rglob("*")))}
    assert found == {"state": 0o700, "deep": 0o700, "key": 0o600, "program": 0o700, "link": 0o644}
    assert make_tight(ours) == 0
    assert make_tight(tmp_path / "missing") == 0
