"""Adds the page for browsers to the daemon, and the verb `lmtb ui`."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from manager.features import AddedRoutes, DaemonPart, DaemonParts, DaemonStart, Verb

if TYPE_CHECKING:
    from lm_tools_bridge.page.access import Access
    from manager.configuration.paths import Paths

VERBS: Final = (
    Verb(
        "ui",
        "lm_tools_bridge.page.ui_verb",
        "Open the page in a browser: what needs you, projects, calls.",
        section="The manager",
        after="top",
        for_anyone_if={"ui": lambda given: bool(given["list_all"])},
    ),
)


def make_part(start: DaemonStart) -> DaemonPart:
    """The page, with its tickets."""
    from lm_tools_bridge.page.access import Access

    access = Access(time.monotonic, lambda: secrets.token_urlsafe(24))
    return PagePart(start.paths, access)


class PagePart(DaemonPart):
    """Adds the page to the daemon: a page for each server of the port, and tickets at the control socket.

    What serves them is loaded for the first of them, because it takes an eighth of the start. Since the
    servers of the pages are loaded soon after the start, that is before an upgrade replaces its files.

    Attributes:
        access: who may act.
    """

    def __init__(self, paths: Paths, access: Access) -> None:
        self.access = access
        self._paths = paths
        self._parts: DaemonParts | None = None

    def connect(self, parts: DaemonParts) -> None:
        """Show these parts."""
        self._parts = parts

    def port_routes(self) -> AddedRoutes:
        """The page, what it loads, and what its buttons send."""
        if self._parts is None:
            return AddedRoutes()
        from lm_tools_bridge.page.routes import FOR_ANYONE, make_page

        page = make_page(self._parts, self._paths, self.access)
        return AddedRoutes(page.routes(), FOR_ANYONE, page.show, page.close)

    def control_routes(self) -> AddedRoutes:
        """Tickets and sessions."""
        from lm_tools_bridge.page.routes import FOR_ANYONE, access_routes

        port = 0 if self._parts is None else self._parts.services.port
        address = f"http://127.0.0.1:{port}/" if port else None
        return AddedRoutes(access_routes(self.access, address), FOR_ANYONE)
