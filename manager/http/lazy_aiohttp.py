"""Provides the names of `aiohttp.web`, and loads aiohttp when the first of them is used.

Modules that use aiohttp can so be imported at start-up without it: an upgrade may remove their files while
the manager runs. Import this module as `web`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp.web import *  # noqa: F403  its names and types
else:

    def __getattr__(name: str) -> Any:
        """Look a name up in `aiohttp.web`."""
        if name.startswith("__"):
            raise AttributeError(name)
        from aiohttp import web  # noqa: PLC0415  80 ms and 11 MB

        return getattr(web, name)
