"""Defines the language tools as models see them, and names the module that runs each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lm_tools_bridge.code_intelligence.tools.schemas import (
    DEFAULT_WAIT_S,
    FILE,
    TARGET,
    WAIT,
    choice,
    define,
    flag,
    number,
    page,
    text,
    words,
)
from workspace_server.tool import Tool

SEVERITIES: Final = ("error", "warning", "information", "hint")
DEFAULT_SEVERITIES: Final = ("error", "warning")
DEFAULT_MAX_DIAGNOSTICS: Final = 500
"""More than a person mends in a day; what does not fit into an answer comes by pages."""
_NAMED: Final = "Name it by `symbol` (`Stack/push`), or `filePath` and `line`."
_DEPTH: Final = number(default=1)

GET_DIAGNOSTICS: Final = define(
    "lm_getDiagnostics",
    "Get diagnostics",
    "Errors and warnings of the project's compilers, type checkers and linters, for the files as they are on "
    "disk now. Call it after edits, instead of building. Without diagnostics, only `fresh` means that there "
    'are none. Example: {"changedSince": "head"}',
    {
        "filePath": FILE,
        "changedSince": choice("", ("head", "session")),
        "severities": words(values=SEVERITIES, default=DEFAULT_SEVERITIES),
        "maxResults": number(default=DEFAULT_MAX_DIAGNOSTICS),
        "offset": number(),
        "waitS": number("Seconds for servers that still read the project.", default=DEFAULT_WAIT_S),
    },
    keywords=("errors", "warnings", "problems", "lint", "type check", "compile", "build", "changed"),
)
FIND_SYMBOL: Final = define(
    "lm_findSymbol",
    "Find symbol",
    "Where a class, function, method or variable is declared, by name or name path. Better than grep for a "
    'name: finds declarations only. Example: {"query": "Stack/push"}',
    {
        "query": text(),
        "match": choice("", ("exact", "prefix", "regex", "fuzzy"), "exact"),
        "kinds": words("E.g. class."),
        "filePath": FILE,
        **page(50),
        **WAIT,
    },
    ("query",),
    keywords=("definition", "declaration", "class", "function", "method", "go to", "name"),
)
SYMBOL_INFO: Final = define(
    "lm_symbolInfo",
    "Symbol info",
    "Signature, documentation, definition and source of one symbol, without reading its file. " + _NAMED,
    {**TARGET, "maxLines": number(default=40), **WAIT},
    keywords=("hover", "signature", "documentation", "type", "definition", "source", "code"),
)
REFERENCES: Final = define(
    "lm_references",
    "Find references",
    "All uses of a symbol; with `relation` its implementations, callers, callees, base or derived types "
    "(`depth` steps). "
    "Better than grep before you change or delete something: no comments, no other symbols of that name. "
    + _NAMED,
    {
        **TARGET,
        "relation": choice(
            "", ("uses", "implementations", "callers", "callees", "supertypes", "subtypes"), "uses"
        ),
        "detail": choice("", ("places", "lines", "context"), "lines"),
        "depth": number(default=1),
        "includeDeclaration": flag(default=False),
        **page(100),
        **WAIT,
    },
    keywords=(
        *("usages", "uses", "callers", "callees", "find all references", "impact", "call graph", "who calls"),
        *("interface", "override", "subclass", "abstract", "virtual", "inheritance", "base class", "extends"),
    ),
)
IMPLEMENTATIONS: Final = define(
    "lm_implementations",
    "Find implementations",
    "The implementations of an interface, abstract class or method. " + _NAMED,
    {**TARGET, "detail": choice("", ("places", "lines", "context"), "lines"), **page(100), **WAIT},
    keywords=("interface", "override", "subclass", "abstract", "virtual"),
)
CALL_HIERARCHY: Final = define(
    "lm_callHierarchy",
    "Call hierarchy",
    "Who calls a function (`incoming`) and what it calls (`outgoing`), over several steps. " + _NAMED,
    {
        **TARGET,
        "direction": choice("", ("incoming", "outgoing", "both"), "both"),
        "depth": _DEPTH,
        **page(100),
        **WAIT,
    },
    keywords=("callers", "callees", "calls", "call graph", "who calls"),
)
TYPE_HIERARCHY: Final = define(
    "lm_typeHierarchy",
    "Type hierarchy",
    "The base types (`supertypes`) and derived types (`subtypes`) of a class or interface, over several "
    "steps. " + _NAMED,
    {
        **TARGET,
        "direction": choice("", ("supertypes", "subtypes", "both"), "both"),
        "depth": _DEPTH,
        **page(100),
        **WAIT,
    },
    keywords=("inheritance", "base class", "subclass", "derived", "extends"),
)
FILE_OUTLINE: Final = define(
    "lm_fileOutline",
    "File outline",
    "The symbols that a file declares, as a tree with lines. Use it before you read a long file.",
    {"filePath": FILE, "depth": number(default=3), **page(300), **WAIT},
    ("filePath",),
    keywords=("symbols", "structure", "functions", "classes", "overview", "table of contents"),
)
RENAME_SYMBOL: Final = replace(
    define(
        "lm_renameSymbol",
        "Rename symbol",
        "Rename a symbol in all files or none, not by search and replace. Shows the diff; "
        "`apply: false` only shows it. " + _NAMED,
        {
            **TARGET,
            "newName": text(),
            "apply": flag(default=True),
            "allowIncomplete": flag(),
            "undo": flag(),
            **WAIT,
        },
        ("newName",),
        keywords=("rename", "refactor", "name"),
        annotations={"readOnlyHint": False, "destructiveHint": True},
    ),
    requires_approval=True,
    harmless={"apply": False},
)
EDIT_SYMBOL: Final = replace(
    define(
        "lm_editSymbol",
        "Edit symbol",
        "Replace a whole symbol, insert text before or after it, or delete it if nothing uses it. Shows the "
        "diff. " + _NAMED,
        {
            **TARGET,
            "action": choice("", ("replace", "before", "after", "delete")),
            "text": text(),
            "apply": flag(default=True),
            **WAIT,
        },
        ("action",),
        keywords=("replace", "insert", "delete", "edit", "body", "function", "method"),
        annotations={"readOnlyHint": False, "destructiveHint": True},
    ),
    requires_approval=True,
    harmless={"apply": False},
)
CODE_ACTION: Final = replace(
    define(
        "lm_codeAction",
        "Code action",
        "Fixes and refactorings of the language server for some lines, such as imports. "
        "Lists them; with `action` (a title) it shows the diff, with `apply: true` it changes files.",
        {
            "filePath": FILE,
            "line": number(default=1),
            "endLine": number(),
            "kinds": words(),
            "action": text(),
            "apply": flag(default=False),
            **WAIT,
        },
        ("filePath",),
        keywords=("quick fix", "refactor", "import", "organize imports", "fix"),
        annotations={"readOnlyHint": False, "destructiveHint": True},
    ),
    requires_approval=True,
    harmless={"apply": False},
)
_MERGED: Final = "lm_references does the same with `relation`"
_RELATIONS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "implementations": ("lm_implementations", {}),
    "callers": ("lm_callHierarchy", {"direction": "incoming"}),
    "callees": ("lm_callHierarchy", {"direction": "outgoing"}),
    "supertypes": ("lm_typeHierarchy", {"direction": "supertypes"}),
    "subtypes": ("lm_typeHierarchy", {"direction": "subtypes"}),
}
"""The tool and the direction that answer a relation other than `uses`."""

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
    "lm_editSymbol": "editing.edit_symbol",
    "lm_codeAction": "editing.code_action",
}
"""The module in this package that runs each tool."""
SYMBOL_TOOLS: Final[tuple[Tool, ...]] = (
    FIND_SYMBOL,
    SYMBOL_INFO,
    REFERENCES,
    replace(IMPLEMENTATIONS, unlisted=_MERGED),
    replace(CALL_HIERARCHY, unlisted=_MERGED),
    replace(TYPE_HIERARCHY, unlisted=_MERGED),
    FILE_OUTLINE,
    RENAME_SYMBOL,
    EDIT_SYMBOL,
    CODE_ACTION,
)
"""The tools that need a server with the role `symbols`.

Those that `lm_references` answers with `relation` are not listed: they can be called, as before.
"""
OUTLINE_TOOLS: Final[tuple[Tool, ...]] = (FIND_SYMBOL, SYMBOL_INFO, FILE_OUTLINE)
"""Those of them for which outlines by syntax are enough."""


def tool_for(name: str, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The tool that answers a call, and its arguments: `relation` of `lm_references` names another one."""
    relation = _RELATIONS.get(str(arguments.get("relation"))) if name == REFERENCES.name else None
    if relation is None:
        return name, arguments
    return relation[0], {**arguments, **relation[1]}
