"""Turns the content blocks of a prompt into the text of a turn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

PromptBlock: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
_FENCE: Final = "````"


class NotText(Exception):
    """A block is no text; the message says which."""


def prompt_text(blocks: Sequence[PromptBlock]) -> str:
    """The text; files that are linked to are named by path, embedded ones are quoted whole.

    Raises:
        NotText: there is a picture, sound or binary file.
    """
    return "".join(_text(block) for block in blocks)


def _text(block: PromptBlock) -> str:
    match block:
        case TextContentBlock():
            return str(block.text)
        case ResourceContentBlock():
            return _place(block.uri)
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return f"\n{_place(resource.uri)}\n{_FENCE}\n{resource.text}\n{_FENCE}\n"
        case EmbeddedResourceContentBlock():
            raise NotText("a binary file")
        case _:
            raise NotText("a picture" if isinstance(block, ImageContentBlock) else "sound")


def _place(uri: str) -> str:
    """The path of a local file, else the address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" else uri
