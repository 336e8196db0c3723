"""Serves the pages of recorded calls: the list with its filters, one call, and figures. They only read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from lm_tools_bridge.page.html import CALLS_PATH
from lm_tools_bridge.page.routes import html_response
from lm_tools_bridge.recorder.page.call_fragments import call_page, no_such_call
from lm_tools_bridge.recorder.page.fragments import calls_page, figures_page
from lm_tools_bridge.recorder.page.lookups import (
    CALL_PATH,
    FIGURES_PATH,
    CallLookups,
    CallQuery,
    FoundCalls,
    FoundFigures,
    call_number,
    read_query,
)
from manager.configuration.paths import Paths
from manager.http import lazy_aiohttp as web

_OFF: Final = (
    "Calls are not recorded: the setting record_calls is off. To record them, set record_calls = true in "
    "config.toml, then run: lmtb restart"
)


class CallPages:
    """The pages of recorded calls.

    Args:
        lookups: finds calls.
        recorder: what the status says of the recorder; None where calls are not recorded.
        answer: renders HTML as a response.
        wall: seconds since 1970.
    """

    def __init__(
        self,
        lookups: CallLookups,
        recorder: Callable[[], Any],
        answer: Callable[[int, str], web.Response],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._lookups = lookups
        self._recorder = recorder
        self._answer = answer
        self._wall = wall

    def routes(self) -> list[web.RouteDef]:
        """The routes of these pages."""
        return [
            web.get(CALLS_PATH, self._calls, allow_head=False),
            web.get(CALL_PATH, self._call, allow_head=False),
            web.get(FIGURES_PATH, self._figures, allow_head=False),
        ]

    async def _calls(self, request: web.Request) -> web.Response:
        now = self._wall()
        query = read_query(request.query, now)
        answer: FoundCalls | str = ""
        if query.problem is None:
            answer = await self._lookups.calls(query.wanted)
        return self._answer(_status(query, answer), calls_page(query, answer, now * 1000, self._notice()))

    async def _figures(self, request: web.Request) -> web.Response:
        query = read_query(request.query, self._wall())
        answer: FoundFigures | str = ""
        if query.problem is None:
            answer = await self._lookups.figures(query.wanted)
        return self._answer(_status(query, answer), figures_page(query, answer, self._notice()))

    async def _call(self, request: web.Request) -> web.Response:
        number = call_number(request.query.get("id", ""))
        if number is None:
            return self._answer(400, no_such_call("The address names no call."))
        answer = await self._lookups.call(number)
        if answer is None:
            return self._answer(404, no_such_call(f"Call {number} is not recorded, or no longer."))
        if isinstance(answer, str):
            return self._answer(503, no_such_call(answer))
        return self._answer(200, call_page(answer))

    def _notice(self) -> str | None:
        """Why newer calls are missing; None if they are recorded."""
        state = self._recorder()
        if not isinstance(state, dict):
            return _OFF
        problem = state.get("problem")
        return None if problem is None else str(problem)


def make_pages(
    paths: Paths, write_now: Callable[[], object] | None, recorder: Callable[[], Any]
) -> CallPages:
    """The pages of the calls in the database at `paths`; the rest is as in `CallLookups` and `CallPages`."""
    lookups = CallLookups(paths.calls_file, paths.logs_dir, write_now)
    return CallPages(lookups, recorder, html_response)


def _status(query: CallQuery, answer: object) -> int:
    if query.problem is not None:
        return 400
    return 503 if isinstance(answer, str) else 200
