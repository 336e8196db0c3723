"""Keeps the system's certificates unread while aiohttp is imported: none of our connections is encrypted.

At its import aiohttp makes contexts for clients, and reading the certificates takes as long as all the rest
of it, and 3 MB. Where they lie can be said to OpenSSL in a variable of the environment; nothing else looks
at it meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

VARIABLE: Final = "SSL_CERT_FILE"


@contextmanager
def unread() -> Iterator[None]:
    """There are no certificates for as long as the block lasts: for the start, before there are threads."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = os.devnull
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
