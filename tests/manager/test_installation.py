"""Tests how a running manager sees that its files were changed, replaced or removed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from manager.installation import CHECK_S, GONE_CHECK_S, Installation, State


def install(folder: Path, version: str, record: str = "a,,\n") -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "manager").mkdir(parents=True)
    (folder / "manager" / "__init__.py").write_text(f'"""x"""\n\n__version__ = "{version}"\n')
    information = folder / f"lm_tools_bridge-{version}.dist-info"
    information.mkdir()
    (information / "RECORD").write_text(record)


async def test_each_change_of_the_installation_is_noticed_and_logged_once(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    install(folder, "1.0")
    watched = Installation(folder, "1.0")
    seen = []
    with capture_logs() as lines:
        for change in (
            lambda: None,
            lambda: install(folder, "1.0"),
            lambda: install(folder, "1.0", "b,,\n"),
            lambda: install(folder, "2.0"),
            lambda: None,
            lambda: shutil.rmtree(folder),
            lambda: install(folder, "1.0"),
        ):
            change()
            seen.append((await watched.check(), watched.problem is None))
    assert seen == [
        (State.CURRENT, True),
        (State.CURRENT, True),
        (State.CHANGED, True),
        (State.OTHER_VERSION, True),
        (State.OTHER_VERSION, True),
        (State.GONE, False),
        (State.CURRENT, True),
    ]
    assert [line["event"].removeprefix("installation.") for line in lines] == [
        "changed", "changed", "gone", "recovered"
    ]  # fmt: skip
    assert (lines[1]["running"], lines[1]["installed"], lines[1]["hint"]) == ("1.0", "2.0", "lmtb restart")


async def test_changed_sources_of_a_checkout_are_no_upgrade(tmp_path: Path) -> None:
    install(tmp_path / "src", "1.0")
    shutil.rmtree(tmp_path / "src" / "lm_tools_bridge-1.0.dist-info")
    watched = Installation(tmp_path / "src", "1.0")
    (tmp_path / "src" / "manager" / "daemon.py").write_text("changed = True\n")
    assert await watched.check() is State.CURRENT


async def test_what_was_gone_for_a_moment_is_looked_for_again_soon(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    install(folder, "1.0")
    watched, pauses = Installation(folder, "1.0"), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            shutil.rmtree(folder)
        elif len(pauses) == 2:
            install(folder, "1.0")
        else:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await watched.run(sleep)
    assert pauses == [CHECK_S, GONE_CHECK_S, CHECK_S]
    assert watched.problem is None
