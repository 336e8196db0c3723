"""`execute_code`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from workspace_server.call_context import CallContext
from workspace_server.processes import environment
from workspace_server.sources.scripts.code import CodeSource
from workspace_server.tool import InvalidArguments, ToolResult


async def test_code_runs_like_a_script_and_always_needs_approval(tmp_path: Path) -> None:
    root, run = tmp_path / "project", tmp_path / "run"
    root.mkdir()
    (root / "json.py").write_text("raise SystemExit('workspace code ran')")

    async def surroundings() -> Mapping[str, str]:
        return environment.inherited(os.environ, None, str(root))

    source = CodeSource(root, environment=surroundings, run_dir=run)
    try:
        (tool,) = await source.list_tools()
        assert (tool.name, tool.requires_approval, tool.visibility, tool.keywords) == (
            "execute_code",
            True,
            "native",
            (),
        )
        assert tool.input_schema["required"] == ["code"]
        for code, text in (
            ("import os, json\nprint(os.getcwd())", str(root)),
            ("import lmtb_tool\nlmtb_tool.return_object({'a': 'é'})", '{"a": "é"}'),
            ("x = 1\nraise ValueError(x)", "Error: ValueError: 1 (code.py, line 2)"),
        ):
            outcome = await source.call_tool("execute_code", {"code": code}, CallContext())
            assert isinstance(outcome, ToolResult)
            assert outcome.text == text
        with pytest.raises(InvalidArguments):
            await source.call_tool("execute_code", {"code": "\ud800"}, CallContext())
    finally:
        await source.close()
    assert list(run.iterdir()) == []
