"""The names of aiohttp's server, which is loaded when the first of them is used;
`listener/aiohttp_server.py` says when that is.

So the modules that use them are loaded with the manager: one whose files are replaced while it runs, as in an
upgrade, can still be asked and stopped. Imported as `web`, the name it has in the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp.web import *  # noqa: F403  its names and types
else:

    def __getattr__(name: str) -> Any:
        """What the library has by this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        from aiohttp import web  # noqa: PLC0415  80 ms and 11 MB

        return getattr(web, name)
