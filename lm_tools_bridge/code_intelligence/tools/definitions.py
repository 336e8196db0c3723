"""Defines the language tools as models see them, and names the module that runs each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lm_tools_bridge.code_intelligence.tools.schemas import (
    FILE,
    SYMBOL_KINDS,
    TARGET,
    WAIT,
    choice,
    define,
    flag,
    number,
    page,
    text,
)
from workspace_server.tool import Tool

SEVERITIES: Final = ("error", "warning", "information", "hint")
DEFAULT_SEVERITIES: Final = ("error", "warning")
DEFAULT_MAX_DIAGNOSTICS: Final = 500
_DEPTH: Final = number("How many steps to follow.", 1, 5, 1)

GET_DIAGNOSTICS: Final = define(
    "lm_getDiagnostics",
    "Get diagnostics",
    "Errors and warnings from the project's compilers, type checkers and linters, for the files as they are "
    "on disk now: of the whole project, of one file, or of changed files. Call it after edits instead of "
    "building. `freshness` says for each server how complete its part is: without diagnostics only `fresh` "
    "means that there are none.",
    {
        "filePath": text("Only this file. " + FILE["description"]),
        "changedSince": choice(
            "Only changed files: since the last commit (`head`) or since this workspace was opened "
            "(`session`).",
            ("head", "session"),
        ),
        "severities": {
            "type": "array",
            "items": {"type": "string", "enum": list(SEVERITIES)},
            "default": list(DEFAULT_SEVERITIES),
            "description": "Only these.",
        },
        "maxResults": number("At most so many; errors come first.", 1, 10_000, DEFAULT_MAX_DIAGNOSTICS),
        "offset": number("Leave out so many; `nextOffset` of the last answer.", 0, None, 0),
        **WAIT,
    },
    keywords=("errors", "warnings", "problems", "lint", "type check", "compile", "build", "changed"),
)
FIND_SYMBOL: Final = define(
    "lm_findSymbol",
    "Find symbol",
    "Find where classes, functions, methods, variables … are declared, by name: `push`, or by name path: "
    "`Stack/push`. Better than a text search, because it finds declarations only. Each entry has location, "
    "signature line and name path.",
    {
        "query": text("A name or name path; a leading `/` means the top level of a file.", minLength=1),
        "match": choice(
            "How the last part of `query` is compared.", ("exact", "prefix", "regex", "fuzzy"), "exact"
        ),
        "kinds": {
            "type": "array",
            "items": {"type": "string", "enum": list(SYMBOL_KINDS)},
            "description": "Only symbols of these kinds.",
        },
        "filePath": text("Only this file. " + FILE["description"]),
        **page(50, 500),
        **WAIT,
    },
    ("query",),
    keywords=("definition", "declaration", "class", "function", "method", "go to", "name"),
)
SYMBOL_INFO: Final = define(
    "lm_symbolInfo",
    "Symbol info",
    "All about one symbol: kind, signature, documentation, where it is defined and declared, and its source "
    "code. The symbol is given by name, or by file, line and character.",
    {**TARGET, "maxLines": number("Lines of source code to include; 0 for none.", 0, 400, 40), **WAIT},
    keywords=("hover", "signature", "documentation", "type", "definition", "source", "code"),
)
REFERENCES: Final = define(
    "lm_references",
    "Find references",
    "All uses of a symbol in the project, with two lines of context each. Unlike a text search it leaves out "
    "comments and other symbols of the same name. `total` counts all. The symbol is given by name, or by "
    "file, line and character.",
    {
        **TARGET,
        "includeDeclaration": flag("Also the declaration itself.", default=False),
        **page(100, 1000),
        **WAIT,
    },
    keywords=("usages", "uses", "callers", "find all references", "impact"),
)
IMPLEMENTATIONS: Final = define(
    "lm_implementations",
    "Find implementations",
    "The implementations of an interface, abstract class or method, with two lines of context each. The "
    "symbol is given by name, or by file, line and character.",
    {**TARGET, **page(100, 1000), **WAIT},
    keywords=("interface", "override", "subclass", "abstract", "virtual"),
)
CALL_HIERARCHY: Final = define(
    "lm_callHierarchy",
    "Call hierarchy",
    "Who calls a function (`incoming`) and what it calls (`outgoing`), over several steps. The function is "
    "given by name, or by file, line and character.",
    {
        **TARGET,
        "direction": choice("Which calls.", ("incoming", "outgoing", "both"), "both"),
        "depth": _DEPTH,
        **page(100, 500),
        **WAIT,
    },
    keywords=("callers", "callees", "calls", "call graph", "who calls"),
)
TYPE_HIERARCHY: Final = define(
    "lm_typeHierarchy",
    "Type hierarchy",
    "The base types (`supertypes`) and derived types (`subtypes`) of a class or interface, over several "
    "steps. The type is given by name, or by file, line and character.",
    {
        **TARGET,
        "direction": choice("Which types.", ("supertypes", "subtypes", "both"), "both"),
        "depth": _DEPTH,
        **page(100, 500),
        **WAIT,
    },
    keywords=("inheritance", "base class", "subclass", "derived", "extends"),
)
FILE_OUTLINE: Final = define(
    "lm_fileOutline",
    "File outline",
    "The symbols that a file declares, as a tree with lines: a quick look at a file without reading it.",
    {
        "filePath": FILE,
        "depth": number("Levels of nesting to show.", 1, 10, 3),
        **page(300, 2000),
        **WAIT,
    },
    ("filePath",),
    keywords=("symbols", "structure", "functions", "classes", "overview", "table of contents"),
)
RENAME_SYMBOL: Final = replace(
    define(
        "lm_renameSymbol",
        "Rename symbol",
        "Rename a symbol in all files of the project, all of them or none. Shows the change as a diff; with "
        "`apply: false` it only shows it. The symbol is given by name, or by file, line and character.",
        {
            **TARGET,
            "newName": text("The new name, without a path.", minLength=1, maxLength=256),
            "apply": flag("Whether to change the files.", default=True),
            "allowIncomplete": flag("Apply it even if it may miss places.", default=False),
            **WAIT,
        },
        ("newName",),
        keywords=("rename", "refactor", "name"),
        annotations={"readOnlyHint": False, "destructiveHint": True},
    ),
    requires_approval=True,
    harmless={"apply": False},
)
CODE_ACTION: Final = replace(
    define(
        "lm_codeAction",
        "Code action",
        "Fixes and refactorings that the language server offers for a line or range: add an import, fix a "
        "diagnostic, organize imports … Without `action` it lists them. With `action` it shows the change as "
        "a diff, and with `apply: true` it changes the files, all of them or none.",
        {
            "filePath": FILE,
            "line": number("First line, from 1.", 1, None, 1),
            "endLine": number("Last line. Default: the same line.", 1),
            "kinds": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Only these kinds, e.g. `quickfix`, `refactor`, `source.organizeImports`.",
            },
            "action": text("The title of one of the actions.", minLength=1),
            "apply": flag("Whether to change the files.", default=False),
            **WAIT,
        },
        ("filePath",),
        keywords=("quick fix", "refactor", "import", "organize imports", "fix"),
        annotations={"readOnlyHint": False, "destructiveHint": True},
    ),
    requires_approval=True,
    harmless={"apply": False},
)

MODULES: Final[Mapping[str, str]] = {
    "lm_getDiagnostics": "get_diagnostics",
    "lm_findSymbol": "find_symbol",
    "lm_symbolInfo": "symbol_info",
    "lm_references": "references",
    "lm_implementations": "references",
    "lm_callHierarchy": "hierarchy",
    "lm_typeHierarchy": "hierarchy",
    "lm_fileOutline": "file_outline",
    "lm_renameSymbol": "editing.rename_symbol",
    "lm_codeAction": "editing.code_action",
}
"""The module in this package that runs each tool."""
SYMBOL_TOOLS: Final[tuple[Tool, ...]] = (
    FIND_SYMBOL,
    SYMBOL_INFO,
    REFERENCES,
    IMPLEMENTATIONS,
    CALL_HIERARCHY,
    TYPE_HIERARCHY,
    FILE_OUTLINE,
    RENAME_SYMBOL,
    CODE_ACTION,
)
"""The tools that need a server with the role `symbols`."""
OUTLINE_TOOLS: Final[tuple[Tool, ...]] = (FIND_SYMBOL, SYMBOL_INFO, FILE_OUTLINE)
"""Those of them for which outlines by syntax are enough."""
