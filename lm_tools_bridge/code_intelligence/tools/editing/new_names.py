"""Says why a text cannot be the name of a symbol: most language servers rename to whatever they get. Pure."""

from __future__ import annotations

import keyword
import re
from typing import Final

_ANYWHERE: Final = re.compile(r"[\w$#@!?~:.*<=>\[\]+%^&|-]+")
"""What names are made of in any language, such as `a-b` in CSS, `r#type` in Rust, and `operator+` in C++."""
_PYTHON: Final = frozenset({".py", ".pyi"})
_SCRIPTS: Final = frozenset({".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"})
_SCRIPT_NAME: Final = re.compile(r"#?[^\W\d][\w$]*|#?\$[\w$]*")
_SCRIPT_WORDS: Final = frozenset(
    {
        "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default",
        "delete", "do", "else", "enum", "export", "extends", "false", "finally", "for", "function",
        "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null",
        "package", "private", "protected", "public", "return", "static", "super", "switch", "this",
        "throw", "true", "try", "typeof", "var", "void", "while", "with", "yield",
    }
)  # fmt: skip
NO_NAME: Final = "must be a name, without a path, blanks or brackets"


def why_no_name(text: str, suffix: str | None) -> str:
    """Why the text is no name, in a few words; empty if it may be one.

    Args:
        text: the new name of a symbol.
        suffix: that of the file which declares it; None if it is not known yet.
    """
    if suffix is None:
        return "" if _ANYWHERE.fullmatch(text) else NO_NAME
    if suffix in _PYTHON:
        return _of("Python", text, is_name=text.isidentifier(), is_word=keyword.iskeyword(text))
    if suffix in _SCRIPTS:
        is_name = _SCRIPT_NAME.fullmatch(text) is not None
        return _of("JavaScript", text, is_name=is_name, is_word=text in _SCRIPT_WORDS)
    return ""


def _of(language: str, text: str, *, is_name: bool, is_word: bool) -> str:
    if not is_name:
        return f"{text} is no name in {language}"
    return f"{text} is a reserved word in {language}" if is_word else ""
