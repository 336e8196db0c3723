"""Asks for the uses of a symbol, also of a server to which nobody says what belongs to the project.

Without `tsconfig.json` or `jsconfig.json`, TypeScript's servers know the files that are open, and what these
import. So the files with the symbol's name are opened, and the server is asked again.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Final, TypeVar

from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting, Work
from lm_tools_bridge.code_intelligence.tools.project_files import where, without_libraries
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from workspace_server.sources.builtin.search.engine import find_text
from workspace_server.sources.builtin.search.query import EngineUnavailable, TextQuery

MAX_GIVEN: Final = 150
"""So many files are opened: fewer than may be open at a time."""
_MAX_LINES: Final = 5000
"""Lines with the name: enough to name more files than may be opened."""

T = TypeVar("T")


async def ask(workplace: Workplace, target: Target, work: Work[T], waiting: Waiting) -> Part[T]:
    """As `asking.ask`, of the target's server, once it knows the files with the target's name."""
    part = await asking.ask(target.server, work, waiting)
    kind = target.server.specification
    if not kind.joins_open_files or part.freshness.reason != kind.without_project_files or not target.name:
        return part
    await _give_files_with(workplace, target.server, target.name)
    return await asking.ask(target.server, work, waiting)


async def _give_files_with(workplace: Workplace, server: LanguageServer, name: str) -> None:
    query = TextQuery(re.escape(name), regex=True, case_sensitive=True)
    try:
        matches = await find_text(
            workplace.workspace,
            query,
            where(server.specification),
            _MAX_LINES,
            workplace.searches.settings(),
        )
    except EngineUnavailable:
        return
    paths = dict.fromkeys(match.path for match in matches.items)
    own = await asyncio.to_thread(without_libraries, workplace.workspace, paths)
    for path in own[:MAX_GIVEN]:
        with suppress(OSError):
            await server.open(path)
