"""Strings in `__all__` that name a symbol of Python are found, those that name another one are not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools.editing.exported_names import exported_spans, read_module


def listed(text: str, name: str = "old") -> list[tuple[int, str]]:
    """The lines of `__all__` that name it, each with the text of the place."""
    lines = text.split("\n")
    module = read_module(Path("m.py"), lines, name)
    assert module is not None
    return [
        (span.start.line, lines[span.start.line - 1][span.start.column - 1 : span.end.column - 1])
        for span in module.listed_spans
    ]


@pytest.mark.parametrize(
    "text",
    [
        "__all__ = ['old', 'other']",
        '__all__ = ("other", "old")',
        "__all__: list[str] = ['old']",
        "__all__ += ['old']",
        "__all__.extend(['old'])",
        "__all__.append('old')",
        "if True:\n    __all__ = ['old']",
        "try:\n    pass\nexcept ImportError:\n    __all__ = ['old']",
        "x = 'äöü'; __all__ = ['äöü', 'old']",
        "__all__ = [\n    'other',\n    u'old',\n]",
    ],
)
def test_ways_to_write_it(text: str) -> None:
    assert [word for _, word in listed(text)] == ["old"]


@pytest.mark.parametrize(
    "text",
    [
        "names = ['old']",
        "__all__ = ['older', 'm.old', 'o' 'ld']",
        "__all__ = ['ol\\x64']",
        "def f():\n    __all__ = ['old']",
        "# __all__ = ['old']",
    ],
)
def test_what_is_no_entry_of_it(text: str) -> None:
    assert listed(text) == []


def test_a_file_that_is_no_python_is_left_out() -> None:
    assert read_module(Path("m.py"), ["def ("], "old") is None


def places(files: Mapping[str, str], changed: Mapping[str, set[int]]) -> list[str]:
    """The files whose `__all__` names the symbol that is declared, or used, on the changed lines."""
    modules = [read_module(Path("/p") / name, text.split("\n"), "old") for name, text in files.items()]
    lines = {Path("/p") / name: frozenset(numbers) for name, numbers in changed.items()}
    spans = exported_spans([module for module in modules if module is not None], lines)
    return [path.relative_to("/p").as_posix() for path, _ in spans]


FILES = {
    "pkg/__init__.py": "from ._errors import *\n__all__ = ['old']",
    "pkg/_errors.py": "__all__ = ['old']\n@decorated\nclass old: pass",
    "pkg/api.py": "from pkg._errors import old\n__all__ = ['old']",
    "pkg/user.py": "from pkg import *\n__all__ = ['old']",
    "pkg/other.py": "__all__ = ['old']\ndef old(): pass",
    "pkg/renaming.py": "from pkg._errors import old as mine\nold = 1\n__all__ = ['old']",
    "pkg/local.py": "__all__ = ['old']\ndef f():\n    old = 1",
}


def test_modules_that_declare_or_import_it_and_those_that_import_all_of_them() -> None:
    changed = {
        "pkg/_errors.py": {3},
        "pkg/api.py": {1},
        "pkg/renaming.py": {1},
    }
    assert places(FILES, changed) == ["pkg/__init__.py", "pkg/_errors.py", "pkg/api.py", "pkg/user.py"]


def test_another_symbol_of_the_name_is_left_alone() -> None:
    assert places(FILES, {"pkg/other.py": {2}}) == ["pkg/other.py"]
    assert places(FILES, {"pkg/local.py": {3}}) == []


def test_stars_that_import_each_other_end() -> None:
    files = {"a.py": "from b import *\n__all__ = ['old']", "b.py": "from a import *\n__all__ = ['old']"}
    assert places(files, {}) == []
    assert places({**files, "c.py": "old = 1"}, {"c.py": {1}}) == []
