"""Names a browser and its system from what it says of itself, for the list of browsers. Pure."""

from __future__ import annotations

import re
from typing import Final

_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("HeadlessChrome", "Chrome without a window"),
    ("Chrome", "Chrome"),
    ("Version", "Safari"),
)
"""Product in a `User-Agent` -> its name. Browsers also name those that they resemble, which come later."""
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str:
    """A name such as `Firefox 140 on Linux`; the whole text if it names no known browser.

    Args:
        user_agent: the header field `User-Agent`, which anybody can invent.
    """
    for product, name in _BROWSERS:
        match = re.search(rf"\b{product}/([0-9]{{1,4}})", user_agent)
        if match is not None:
            system = next((word for mark, word in _SYSTEMS if mark in user_agent), None)
            return f"{name} {match[1]}" + (f" on {system}" if system else "")
    return user_agent
