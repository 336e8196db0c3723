"""Servers that `lmtb languages install` gets from the real registries answer at once, behind their fence."""

from __future__ import annotations

import os
from pathlib import Path

import mcp
import pytest

from lm_tools_bridge.code_intelligence.kinds.installation import Installation
from lm_tools_bridge.code_intelligence.kinds.installed_servers import InstalledServers
from lm_tools_bridge.code_intelligence.kinds.package_managers import Runner
from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from support.projects.gateway import running_gateway, structured

FILES = {
    "pyproject.toml": "[project]\nname = 'x'\nversion = '0'\n",
    "a.py": "def seldom() -> int:\n    return 1\n",
    "b.py": "from a import seldom\n\nseldom()\n",
    "tsconfig.json": "{}",
    "c.ts": "export function rarely() {}\n",
    "d.ts": "import { rarely } from './c';\nrarely();\n",
}


@pytest.mark.parametrize(("server", "symbol"), [("ty", "seldom"), ("typescript", "rarely")])
async def test_a_server_answers_as_soon_as_it_is_installed(
    server: str, symbol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj", **FILES)
        async with mcp.Client(project.url) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "lm_references" not in names
            installation = Installation(InstalledServers.of_user(), Runner(dict(os.environ)))
            installation.carry_out(installation.plan(KINDS[server]))
            answer = await structured(client, "lm_references", symbol=symbol)
            assert len(answer["references"]) == 2
            assert answer["freshness"][0]["provider"] == server
