"""Loads the tree-sitter grammars that are installed, and the queries that find definitions with them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Parser, Query


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """Where one grammar comes from.

    Attributes:
        module: the package of the grammar, which may not be installed.
        function: the function of the package that returns the grammar.
        tags: packages whose own `queries/tags.scm` apply.
        definitions: patterns for definitions that those lack.
    """

    module: str
    function: str = "language"
    tags: tuple[str, ...] = ()
    definitions: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar: its parser, and the query that captures `@definition.<kind>` and `@name`."""

    parser: Parser
    query: Query


_TYPESCRIPT: Final = """
(class_declaration name: (type_identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.enum
(type_alias_declaration name: (type_identifier) @name) @definition.type
"""
_C: Final = "(preproc_function_def name: (identifier) @name) @definition.macro"
_CPP: Final = """
(namespace_definition name: (_) @name) @definition.module
(alias_declaration name: (type_identifier) @name) @definition.type
(function_declarator declarator: (qualified_identifier
  name: (qualified_identifier name: (identifier) @name))) @definition.method
"""
_RUST: Final = "(function_signature_item name: (identifier) @name) @definition.function"
_JAVA: Final = """
(enum_declaration name: (identifier) @name) @definition.enum
(record_declaration name: (identifier) @name) @definition.class
"""
_C_SHARP: Final = """
(class_declaration name: (identifier) @name) @definition.class
(struct_declaration name: (identifier) @name) @definition.type
(record_declaration name: (identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.enum
(interface_declaration name: (identifier) @name) @definition.interface
(method_declaration name: (identifier) @name) @definition.method
(property_declaration name: (identifier) @name) @definition.property
(namespace_declaration name: (_) @name) @definition.module
"""


def _own(language: str, definitions: str = "") -> GrammarSource:
    return GrammarSource(f"tree_sitter_{language}", "language", (f"tree_sitter_{language}",), definitions)


_JAVASCRIPT: Final = _own("javascript")
_TYPESCRIPT_TAGS: Final = ("tree_sitter_javascript", "tree_sitter_typescript")
GRAMMARS: Final[Mapping[str, GrammarSource]] = {
    "python": _own("python"),
    "javascript": _JAVASCRIPT,
    "javascriptreact": _JAVASCRIPT,
    "typescript": GrammarSource(
        "tree_sitter_typescript", "language_typescript", _TYPESCRIPT_TAGS, _TYPESCRIPT
    ),
    "typescriptreact": GrammarSource("tree_sitter_typescript", "language_tsx", _TYPESCRIPT_TAGS, _TYPESCRIPT),
    "c": _own("c", _C),
    "cpp": _own("cpp", _C + _CPP),
    "go": _own("go"),
    "rust": _own("rust", _RUST),
    "java": _own("java", _JAVA),
    "csharp": GrammarSource("tree_sitter_c_sharp", definitions=_C_SHARP),
    "ruby": _own("ruby"),
    "php": GrammarSource("tree_sitter_php", "language_php", ("tree_sitter_php",)),
    "lua": _own("lua"),
    "swift": _own("swift"),
}
"""By the `languageId` of LSP."""

LANGUAGES: Final[Mapping[str, str]] = {
    ".py": "python", ".pyi": "python",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact",
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
    ".c": "c", ".h": "cpp", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hh": "cpp", ".hpp": "cpp", ".hxx": "cpp",
    ".go": "go", ".rs": "rust", ".java": "java", ".cs": "csharp", ".rb": "ruby", ".php": "php", ".lua": "lua",
    ".swift": "swift",
}  # fmt: skip
"""The `languageId` by file suffix."""


@cache
def installed() -> frozenset[str]:
    """The languages whose grammar is installed. Imports none of them."""
    from importlib.util import find_spec  # noqa: PLC0415  only the search for this server needs it

    return frozenset(language for language, source in GRAMMARS.items() if find_spec(source.module))


@cache
def grammar(language: str) -> Grammar:
    """The grammar of an installed language.

    Raises:
        KeyError: the language has no grammar.
        ImportError: its grammar is not installed.
    """
    source = GRAMMARS[language]
    from tree_sitter import Language, Parser, Query

    loaded = Language(getattr(importlib.import_module(source.module), source.function)())
    tags = [(files(package) / "queries" / "tags.scm").read_text("utf-8") for package in source.tags]
    return Grammar(Parser(loaded), Query(loaded, "\n".join([*tags, source.definitions])))
