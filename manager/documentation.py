"""Finds the pages of the documentation that come with the program, for messages that name one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PAGES: Final = Path(__file__).with_name("docs")
"""In the sources a link to `docs/`; a wheel has the pages themselves."""


def page(name: str) -> str:
    """The absolute path of a page or a folder of pages, e.g. `clients/other.md`."""
    return str((_PAGES / name).resolve())
