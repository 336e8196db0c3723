"""Reads the kind, name, signature and category of a symbol from clangd's answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.tools.schemas import SYMBOL_KINDS

Category = Literal["callable", "valueLike", "typeLike", "namespaceLike", "unknown"]
KINDS: Final = tuple(kind.replace(" m", "M").replace(" p", "P") for kind in SYMBOL_KINDS)
"""The names of LSP's symbol kinds (the first is number 1), each as one word: `enumMember`."""
_CALLABLE: Final = frozenset({"method", "constructor", "function", "operator"})
_VALUES: Final = frozenset({"property", "field", "variable", "constant", "enumMember", "parameter"})
_TYPES: Final = frozenset({"class", "struct", "enum", "interface", "typeParameter", "typeAlias", "union"})
_SPACES: Final = frozenset({"namespace", "module", "package", "file"})
_HOVER_KINDS: Final[Mapping[str, str]] = {
    **{word: word for word in ("function", "constructor", "field", "variable", "property")},
    **{word: word for word in ("class", "struct", "union", "enum", "namespace")},
    **dict.fromkeys(("instance-method", "static-method", "destructor", "conversion-function"), "method"),
    **dict.fromkeys(("template-type-param", "template-template-param"), "typeParameter"),
    **dict.fromkeys(("param", "template-non-type-param"), "parameter"),
    "static-property": "property",
    "enumerator": "enumMember",
    "type-alias": "typeAlias",
    "concept": "interface",
    "macro": "constant",
}
"""First word of clangd's hover text -> name of the kind."""
_HEAD: Final = re.compile(r"\A(?:#+ )?([a-z][a-z-]*) `?([^`\n]*)`?")
_CODE: Final = re.compile(r"```[a-z+]*\n(.*?)\n?```", re.DOTALL)
_COMMENT: Final = re.compile(r"\A(?://[^\n]*(?:\n|\Z))+")
_GENERATED: Final = re.compile(r"\.generated\.h\Z|\.gen\.cpp\Z", re.IGNORECASE)


def kind_name(kind: object) -> str:
    """The word for LSP's `SymbolKind`."""
    return KINDS[kind - 1] if isinstance(kind, int) and 1 <= kind <= len(KINDS) else "unknown"


def category(kind: str) -> Category:
    """What a symbol of this kind is to a reader."""
    if kind in _CALLABLE:
        return "callable"
    if kind in _VALUES:
        return "valueLike"
    if kind in _TYPES:
        return "typeLike"
    return "namespaceLike" if kind in _SPACES else "unknown"


def hover_text(hover: object) -> str:
    """The text of a hover result; empty if there is none."""
    contents = hover.get("contents") if isinstance(hover, Mapping) else None
    if isinstance(contents, Mapping):
        contents = contents.get("value")
    return contents.strip() if isinstance(contents, str) else ""


def name_in(hover: str) -> tuple[str, str] | None:
    """Kind and name from the first line of a hover text; None if it does not name a symbol."""
    head = _HEAD.match(hover)
    kind = None if head is None else _HOVER_KINDS.get(head.group(1))
    return None if head is None or kind is None else (kind, head.group(2).strip())


def signature_in(hover: str) -> str | None:
    """The declaration in the last block of code of a hover text, on one line; None without one."""
    blocks = _CODE.findall(hover)
    declaration = " ".join(_COMMENT.sub("", blocks[-1]).split()) if blocks else ""
    return declaration or None


def is_generated(path: str) -> bool:
    """Whether a file is written by Unreal's tools, so that nobody reads or edits it."""
    return _GENERATED.search(path) is not None


def qualified(symbol: Mapping[str, Any]) -> str:
    """The name of a `SymbolInformation` with its container: `ns::Class::method`."""
    name, container = str(symbol.get("name", "")), symbol.get("containerName")
    return f"{container}::{name}" if isinstance(container, str) and container else name
