"""Adds the page for browsers to the daemon, and the verb `lmtb ui`."""

from __future__ import annotations

from typing import Final

from manager.features import DaemonPart, DaemonStart, Verb

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
    from lm_tools_bridge.page.routes import PagePart

    return PagePart(start.paths)
