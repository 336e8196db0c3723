"""Finds the pictures in a tool's result that a model server takes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from lm_tools_bridge.agent.messages import Result

LARGEST: Final = 5 * 1024 * 1024
"""Characters of a picture in base64; a larger one is only named in the text of the result."""


class Picture(NamedTuple):
    """A picture: its media type, and its bytes in base64."""

    kind: str
    data: str


def pictures_of(result: Result, kinds: Collection[str]) -> Iterator[Picture]:
    """The pictures of a result that have one of these media types and are not too large."""
    for block in result.content:
        kind, data = block.get("mimeType"), block.get("data")
        is_picture = block.get("type") == "image" and isinstance(kind, str) and kind in kinds
        if is_picture and isinstance(data, str) and len(data) <= LARGEST:
            yield Picture(str(kind), data)
