"""After each of 50 edits by others, real servers answer about the files as they are, or say that they do not."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.sync.project_sync import make_sync
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.edited_project import (
    CPP,
    GO,
    PYTHON,
    RUST,
    TYPESCRIPT,
    EditedProject,
    Language,
)
from support.servers.language_servers.real_language_servers import BY_NAME

SERVERS: Final[Mapping[str, Language]] = {
    "ty": PYTHON,
    "basedpyright": PYTHON,
    "ruff": PYTHON,
    "clangd": CPP,
    "typescript": TYPESCRIPT,
    "typescript-language-server": TYPESCRIPT,
    "gopls": GO,
    "rust-analyzer": RUST,
}
EDITS: Final = (
    *("add", "remove", "create", "delete", "rename", "break", "fix", "keep_time", "dependency"),
    *("configuration", "checkout"),
)
COUNT: Final = 50
SIZE: Final = 15
WAIT_S: Final = 30.0
SEED: Final = 7


class Questions:
    """Asks one server, and keeps what it answered wrongly.

    Attributes:
        lies: wrong answers that it called fresh.
        fresh, count: how many answers it called fresh, of how many.
    """

    def __init__(self, server: RunningServer, project: EditedProject) -> None:
        self._server = server
        self._project = project
        self.lies: list[str] = []
        self.fresh = self.count = 0

    async def ask(self, edit: str, name: str) -> None:
        """Ask for references and diagnostics, as a tool does: after telling what changed."""
        await self._server.tell_changes()
        if self._server.supports("textDocument/references"):
            how = await self._server.ready(WAIT_S)
            self._judge(f"{edit}: references", await self._references(), self._project.references + 1, how)
        await self._server.tell_changes()
        if self._server.specification.diagnostic_limits:
            return  # it never calls its diagnostics fresh
        asked = dict.fromkeys((name, self._project.dependent, self._project.configured))
        answer = await self._server.diagnostics([self._project.root / one for one in asked], WAIT_S)
        for file in answer.files:
            told = not any(self._is_mistake(one) for one in file.diagnostics)
            if not (self._is_linter and file.path.name == self._project.dependent):
                right = self._project.is_right(file.path.name)
                self._judge(f"{edit}: {file.path.name}", told, right, answer.freshness)

    async def _references(self) -> int:
        """How many there are, the definition included: servers disagree on whether an import is one."""
        language = self._project.language
        path = self._project.root / language.api_name
        await self._server.open(path)
        params = {
            "textDocument": {"uri": to_uri(path)},
            "position": {"line": language.position[0], "character": language.position[1]},
            "context": {"includeDeclaration": True},
        }
        found: Sequence[Any] | None = await self._server.request("textDocument/references", params)
        return len(found or ())

    @property
    def _is_linter(self) -> bool:
        return self._server.specification.name == "ruff"

    def _is_mistake(self, diagnostic: Mapping[str, Any]) -> bool:
        if self._is_linter:
            return "`os` imported" in str(diagnostic["message"])
        return bool(diagnostic.get("severity", 1) == 1)

    def _judge(self, what: str, told: object, right: object, how: Freshness) -> None:
        self.count += 1
        self.fresh += how.state == "fresh"
        if told != right and how.state == "fresh":
            self.lies.append(f"{what}: {told} for {right}")


@pytest.mark.parametrize("name", SERVERS)
async def test_no_answer_about_old_files_is_called_fresh(name: str, installed: Path, tmp_path: Path) -> None:
    launch = BY_NAME[name].launch(installed, tmp_path)
    [root] = launch.folders
    project = EditedProject(root, SERVERS[name], SIZE, SEED)
    kind = replace(KINDS[name], options={**KINDS[name].options, **launch.specification.options})
    server = await RunningServer.start(replace(launch, specification=kind), make_sync([root]))
    try:
        await server.tell_changes()
        freshness = await server.ready(WAIT_S)
        if "rust-src" in (freshness.reason or ""):
            pytest.skip("without the source of Rust's standard library, no answer is called fresh")
        assert freshness.state == "fresh"
        questions = Questions(server, project)
        edits = [EDITS[number % len(EDITS)] for number in range(COUNT)]
        random.Random(SEED).shuffle(edits)
        for edit in edits:
            await questions.ask(edit, project.edit(edit))
        assert questions.lies == []
        # otherwise a server that never answers in time would pass
        assert questions.fresh > 0.9 * questions.count
    finally:
        await server.close()
