"""Adds the recorder to the daemon: it observes calls, and pages, status and metrics show them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.text.redaction import hidden_keys, hide
from manager.admin.measures import Counter
from manager.call_observer import CallObserver
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.features import AddedRoutes, DaemonPart, DaemonParts, has_feature
from manager.http import lazy_aiohttp as web
from manager.supervision.environment import SECRETS
from manager.supervision.presence import source_ids

if TYPE_CHECKING:
    from lm_tools_bridge.recorder.recorder import Recorder

FOR_ANYONE: Final = frozenset(
    {"GET /page/call", "GET /page/calls", "GET /page/calls/figures", "POST /recorded/write"}
)
"""The routes that any program of the user may use: they show, or have written what is to be shown."""


class RecorderPart(DaemonPart):
    """The recorder of one manager, unless the setting `record_calls` is off, and what shows it."""

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self._paths = paths
        self._recorder = _make_recorder(settings, paths) if settings.record_calls else None
        self._status: Callable[[], dict[str, Any]] = dict

    def connect(self, parts: DaemonParts) -> None:
        """Start to write calls, with the sources of these parts."""
        self._status = parts.status
        if self._recorder is not None:
            self._recorder.start(source_ids(parts.workspaces))

    async def close(self) -> None:
        """Write what is left."""
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    def observer(self) -> CallObserver | None:
        """The recorder."""
        return self._recorder

    def status(self) -> Mapping[str, Any]:
        """How much was written, and why nothing is."""
        return {"recorder": None if self._recorder is None else self._recorder.as_json()}

    def problem(self) -> str | None:
        """Why calls cannot be recorded."""
        return None if self._recorder is None else self._recorder.problem

    def counters(self) -> Sequence[Counter]:
        """Calls by tool, which are limited (`recorder.MOST_TOOLS`), and calls that were written."""
        recorder = self._recorder
        calls: list[tuple[tuple[str, ...], int]] = []
        for total in () if recorder is None else recorder.tools.list_totals():
            calls.append(((total.workspace, total.tool, "ok"), total.calls - total.errors))
            if total.errors:
                calls.append(((total.workspace, total.tool, "error"), total.errors))
        written, lost = (0, 0) if recorder is None else (recorder.written, recorder.lost)
        return (
            Counter("tool_calls", "Tool calls by outcome.", ("workspace", "tool", "outcome"), calls),
            Counter("recorded_calls", "Calls that the recorder wrote.", (), [((), written)]),
            Counter("unrecorded_calls", "Calls that the recorder could not write.", (), [((), lost)]),
        )

    def port_routes(self) -> AddedRoutes:
        """The pages of recorded calls, which are part of the page; loaded with it."""
        if not has_feature("page"):
            return AddedRoutes()
        from lm_tools_bridge.recorder.page.routes import make_pages

        write_now = None if self._recorder is None else self._recorder.write_now
        pages = make_pages(self._paths, write_now, lambda: self._status().get("recorder"))
        return AddedRoutes(pages.routes(), FOR_ANYONE)

    def control_routes(self) -> AddedRoutes:
        """The route of `lmtb calls`, which reads the database itself."""
        return AddedRoutes([web.post("/recorded/write", self._write)], FOR_ANYONE)

    async def _write(self, _: web.Request) -> web.Response:
        recorder = self._recorder
        is_written = recorder is not None and await asyncio.to_thread(recorder.write_now)
        return web.json_response({"ok": True, "written": is_written})


def _make_recorder(settings: Settings, paths: Paths) -> Recorder:
    from lm_tools_bridge.recorder.recorder import Limits, Recorder
    from lm_tools_bridge.recorder.retention import DAY_S

    hide(*(value for name, value in os.environ.items() if name.startswith(SECRETS)))
    limits = Limits(
        settings.record_size,
        settings.record_days * DAY_S,
        settings.record_contents_days * DAY_S,
        hidden_keys(settings.record_hidden_keys),
    )
    return Recorder(paths.calls_file, limits)
