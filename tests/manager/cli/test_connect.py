"""The verb connect: the folder for which it connects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manager.stdio_bridge import bridge


@pytest.mark.parametrize("text", ["${workspaceFolder}", "$PWD", "%CD%", "{env:PWD}"])
def test_a_variable_that_the_client_did_not_expand_counts_as_not_given(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    folders: list[str] = []
    monkeypatch.setattr(bridge, "run", lambda paths, folder: folders.append(folder))
    monkeypatch.chdir(tmp_path)
    result = run("connect", "--cwd", text)
    assert folders == [str(tmp_path)]
    assert f"the client did not expand {text} in --cwd" in result.stderr
    assert result.stdout == ""
    run("connect", "--cwd", "sub")
    assert folders[1:] == [str(tmp_path / "sub")]
