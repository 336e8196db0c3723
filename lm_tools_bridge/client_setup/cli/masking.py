"""Hides values that may be secret in what is shown of clients' files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from lm_tools_bridge.client_setup.change import FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.workbench import Planned
from lm_tools_bridge.text.jsonc_parser import Dialect

MASK: Final = "********"
_SECRET_TABLES: Final = frozenset({"env", "environment", "headers", "http_headers", "oauth", "auth"})
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|passw|api-?_?key|auth|credential")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*|\{env:[^}]*\}")
_LEAST: Final = 4
"""Shorter values are masked only where they stand alone between quotation marks."""


def secrets_in(value: Any) -> frozenset[str]:
    """The texts in a decoded file that may be secret: of variables, headers, tokens, options and queries."""
    return frozenset(text for text in _secrets(value) if text and not _VARIABLE.fullmatch(text))


def secrets_of(files: Iterable[tuple[str, bytes | None]]) -> frozenset[str]:
    """The same of files with these names and contents; one that cannot be read has none."""
    secrets: set[str] = set()
    for name, content in files:
        text = decoded(content or b"", name)
        dialect = None if name.endswith(".toml") else Dialect(comments=True, trailing_commas=True)
        if isinstance(text, str):
            secrets |= secrets_in(value_at(text, FileFormat("", dialect), ()))
    return frozenset(secrets)


def mask_for(files: Iterable[Planned]) -> Callable[[str], str]:
    """Hides what may be secret in these files before and after their change."""
    contents = [(file.state.path.name, text) for file in files for text in (file.state.content, file.after)]
    return mask_of_contents(contents)


def mask_of_contents(files: Iterable[tuple[str, bytes | None]]) -> Callable[[str], str]:
    """Hides what may be secret in files with these names and contents."""
    return partial(masked, secrets=secrets_of(files))


def masked(text: str, secrets: Collection[str]) -> str:
    """A line of a file without these texts, however they are written in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        for written in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
            if len(secret) >= _LEAST:
                text = text.replace(written, MASK)
            for mark in "\"'":
                text = text.replace(f"{mark}{written}{mark}", f"{mark}{MASK}{mark}")
    return text


def _secrets(value: Any, *, inside: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            hidden = inside or key in _SECRET_TABLES or bool(_SECRET_NAME.search(key))
            yield from _secrets(item, inside=hidden)
    elif isinstance(value, list):
        yield from _of_arguments(value)
        for item in value:
            yield from _secrets(item, inside=inside)
    elif isinstance(value, str):
        yield from [value, value.partition(" ")[2]] if inside else _of_address(value)


def _of_arguments(words: list[Any]) -> Iterator[str]:
    """The values of options such as `--token x`, `--token=x` and `TOKEN=x`."""
    texts = [word if isinstance(word, str) else "" for word in words]
    for word, following in zip_longest(texts, texts[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if _SECRET_NAME.search(name):
            yield value if equals else following if name.startswith("-") else ""


def _of_address(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        yield from filter(None, (parts.password, parts.username))
    except ValueError:
        return
    yield from (value for _, value in parse_qsl(parts.query))
