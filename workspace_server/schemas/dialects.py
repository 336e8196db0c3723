"""Knows the dialects of JSON Schema: which one a schema declares, and the engine for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jsonschema_rs

Engine = type[
    jsonschema_rs.Draft4Validator
    | jsonschema_rs.Draft6Validator
    | jsonschema_rs.Draft7Validator
    | jsonschema_rs.Draft201909Validator
    | jsonschema_rs.Draft202012Validator
]


@dataclass(frozen=True)
class Dialect:
    """One dialect.

    Attributes:
        uri: of its metaschema.
        engine: compiles its schemas.
    """

    uri: str
    engine: Engine

    @cached_property
    def metaschema(self) -> jsonschema_rs.Validator:
        """Checks schemas themselves."""
        return self.engine({"$ref": self.uri}, offline=True)


DRAFT_04: Final = Dialect("http://json-schema.org/draft-04/schema#", jsonschema_rs.Draft4Validator)
DEFAULT: Final = Dialect("https://json-schema.org/draft/2020-12/schema", jsonschema_rs.Draft202012Validator)
"""Where a schema declares none (MCP 2025-11-25 and later)."""
_KNOWN: Final = (
    DEFAULT,
    Dialect("https://json-schema.org/draft/2019-09/schema", jsonschema_rs.Draft201909Validator),
    Dialect("http://json-schema.org/draft-07/schema#", jsonschema_rs.Draft7Validator),
    Dialect("http://json-schema.org/draft-06/schema#", jsonschema_rs.Draft6Validator),
    DRAFT_04,
)


def _bare(uri: str) -> str:
    """The address without its scheme and an empty fragment, which writers of schemas take for optional."""
    return uri.strip().removesuffix("#").removeprefix("https").removeprefix("http")


_BY_ADDRESS: Final = {_bare(dialect.uri): dialect for dialect in _KNOWN}


def dialect_of(schema: Mapping[str, Any]) -> Dialect | None:
    """The dialect that a schema declares; None if nobody here knows it."""
    declared = schema.get("$schema")
    return _BY_ADDRESS.get(_bare(declared)) if isinstance(declared, str) else DEFAULT
