"""All known kinds of language servers, and which of them are alternatives to each other. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.code_intelligence.kinds import checkers, python
from lm_tools_bridge.code_intelligence.kinds import compiled_languages as compiled
from lm_tools_bridge.code_intelligence.kinds import scripts_and_formats as scripts
from lm_tools_bridge.code_intelligence.outline.grammars import LANGUAGES
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification

OUTLINE: Final = ServerSpecification(
    name="tree-sitter",
    languages=LANGUAGES,
    commands=((sys.executable, "-I", "-m", "lm_tools_bridge.code_intelligence.outline"),),
    roles=frozenset({"symbols"}),
    runs_nothing_of_the_project="it is a part of this product, and parses texts",
    limits="found by syntax alone, without a language server: no types, and no references",
)


@dataclass(frozen=True, slots=True)
class Group:
    """Kinds of which the first that runs is asked.

    Attributes:
        kinds: the alternatives, best first.
        role: what they are asked for.
    """

    kinds: tuple[ServerSpecification, ...]
    role: Role

    def shares_languages(self, other: ServerSpecification) -> bool:
        """Whether another kind would be an alternative to these."""
        return any(
            kind.languages.keys() & other.languages.keys() for kind in self.kinds if kind is not OUTLINE
        )


_TYPE_CHECKERS: Final = (python.TY, python.BASEDPYRIGHT, python.PYRIGHT)
"""`ty` first: it needs a third of the memory, and no waiting after a change."""
_SCRIPTS: Final = (scripts.TYPESCRIPT, scripts.TYPESCRIPT_LANGUAGE_SERVER, scripts.VTSLS)
_SINGLE: Final = (
    *(compiled.CLANGD, compiled.GOPLS, compiled.RUST_ANALYZER, compiled.ZLS, compiled.JDTLS, compiled.CSHARP),
    *(scripts.YAML, scripts.JSON, scripts.CSS, scripts.BASH, scripts.LUA),
)
"""Kinds without alternatives, for symbols and diagnostics."""
_CHECKERS: Final = {
    compiled.GOPLS.name: (compiled.GOPLS, checkers.GO_VET),
    # the compiler knows all errors, the server only some
    compiled.RUST_ANALYZER.name: (checkers.CARGO_CHECK, compiled.RUST_ANALYZER),
}
"""Alternatives for diagnostics of some single kinds."""
GROUPS: Final = (
    Group((*_TYPE_CHECKERS, OUTLINE), "symbols"),
    Group((*_SCRIPTS, OUTLINE), "symbols"),
    Group((scripts.HTML,), "symbols"),
    *(Group((kind, OUTLINE), "symbols") for kind in _SINGLE),
    Group((OUTLINE,), "symbols"),
    Group((*_TYPE_CHECKERS, python.PYREFLY), "diagnostics"),
    Group((python.RUFF,), "diagnostics"),
    Group((checkers.MYPY,), "diagnostics"),
    Group((*_SCRIPTS, checkers.TSC), "diagnostics"),
    Group((scripts.ESLINT, checkers.ESLINT_CHECK), "diagnostics"),
    *(Group(_CHECKERS.get(kind.name, (kind,)), "diagnostics") for kind in _SINGLE),
)
KINDS: Final[Mapping[str, ServerSpecification]] = {
    kind.name: kind for group in GROUPS for kind in group.kinds
}
"""Every kind by its name."""
_CONFIGURED: Final[Mapping[str, tuple[str, ...]]] = {
    "basedpyright": ("tool.basedpyright", "basedpyrightconfig.json"),
    "pyright": ("tool.pyright", "pyrightconfig.json"),
    "ty": ("tool.ty", "ty.toml"),
    "pyrefly": ("tool.pyrefly", "pyrefly.toml"),
    "mypy": ("tool.mypy", "mypy.ini", ".mypy.ini"),
}
"""Signs that a project chose one of the alternatives: tables of pyproject.toml, and files in its folder."""


def groups(
    role: Role,
    names: frozenset[str],
    preferred: frozenset[str],
    kinds: Mapping[str, ServerSpecification] = KINDS,
) -> list[list[ServerSpecification]]:
    """The groups for files with these suffixes or names, each with what the project chose first.

    Our outline server stands alone only for languages that no other group has.

    Args:
        role: what is asked.
        names: suffixes and names of files.
        preferred: kinds that the project configures.
        kinds: all kinds as they are configured; those that are not in `KINDS` come first for symbols.
    """
    others = [kind for name, kind in kinds.items() if name not in KINDS and role in kind.roles]
    others = [kind for kind in others if names & kind.languages.keys()]
    chains: list[list[ServerSpecification]] = []
    covered: set[str] = set()
    for group in _with_others(role, others):
        alternatives = [kinds[kind.name] for kind in group.kinds if kind is not OUTLINE]
        fitting = [kind for kind in alternatives if names & kind.languages.keys()]
        if not fitting:
            continue
        handled = names & frozenset().union(*(kind.languages for kind in fitting))
        covered |= handled
        fitting.sort(key=lambda kind: kind.name in KINDS and kind.name not in preferred)
        if role == "symbols" and handled & OUTLINE.languages.keys():
            fitting.append(OUTLINE)
        chains.append(fitting)
    if role == "symbols" and (names - covered) & OUTLINE.languages.keys():
        chains.append([OUTLINE])
    return chains


def _with_others(role: Role, others: Sequence[ServerSpecification]) -> list[Group]:
    """The groups for a role, with kinds of the configuration: first for symbols, beside others else."""
    joined = [group for group in GROUPS if group.role == role]
    for kind in others:
        at = next((at for at, group in enumerate(joined) if group.shares_languages(kind)), None)
        if role == "symbols" and at is not None:
            joined[at] = Group((kind, *joined[at].kinds), role)
        else:
            joined.append(Group((kind,), role))
    return joined


OLDER_TYPESCRIPT: Final = frozenset({scripts.TYPESCRIPT_LANGUAGE_SERVER.name, scripts.VTSLS.name})
"""Kinds that load the TypeScript of the project, whichever version that is."""


def chosen_by(files: frozenset[str], tables: frozenset[str]) -> frozenset[str]:
    """The kinds that a project configures.

    Args:
        files: names in its folder.
        tables: tables of its pyproject.toml, as `tool.ty`.
    """
    return frozenset(name for name, signs in _CONFIGURED.items() if (files | tables) & frozenset(signs))
