"""Tells whether a text is a regular expression of ECMA-262, the language of patterns in JSON Schema. Pure.

Our own engine reads another language: it refuses patterns that clients read, and takes some that none does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_ANY_CLASS: Final = -1
"""Stands for `\\d` and the like where a character may begin or end a range."""
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{([0-9]+)(?:,([0-9]*))?\})\??")
_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_NAME: Final = re.compile(r"<([^\W\d][\w$]*|\$[\w$]*)>")
_GROUP: Final = re.compile(r"\((?!\?)|\(\?<(?![=!])")
_NAMED: Final = re.compile(r"\(\?<(?![=!])([^>(]*)>")
_PLAIN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*(?:\]|\\?\Z)", re.DOTALL)
"""Brackets in escapes and classes open no group. A class that nothing closes ends with the text: to look for
its end again from each bracket in it would take time by the square of its length."""
_MODIFIERS: Final = re.compile(r"\?(?=[ims-]+:)[ims]*(?:-[ims]*)?:")
_PROPERTY: Final = re.compile(r"\{(?:(\w+)=)?(\w+)\}")
_HEX: Final = {"x": re.compile("[0-9A-Fa-f]{2}"), "u": re.compile("[0-9A-Fa-f]{4}")}
_BRACED: Final = re.compile(r"\{([0-9A-Fa-f]+)\}")
_LOW_HALF: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_NUMBER: Final = re.compile("[1-9][0-9]*")
_LETTER: Final = re.compile("[A-Za-z]")
_SYNTAX: Final = frozenset("^$\\.*+?()[]{}|/")
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CATEGORY_LIST: Final = """
    C Cc Cf Cn Co Cs L LC Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl
    Zp Zs Other Control Format Unassigned Private_Use Surrogate Letter Cased_Letter Lowercase_Letter
    Modifier_Letter Other_Letter Titlecase_Letter Uppercase_Letter Mark Combining_Mark Spacing_Mark
    Enclosing_Mark Nonspacing_Mark Number Decimal_Number Letter_Number Other_Number Punctuation punct
    digit cntrl Connector_Punctuation Dash_Punctuation Close_Punctuation Final_Punctuation
    Initial_Punctuation Other_Punctuation Open_Punctuation Symbol Currency_Symbol Modifier_Symbol
    Math_Symbol Other_Symbol Separator Line_Separator Paragraph_Separator Space_Separator
"""
_BINARY_LIST: Final = """
    ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Bidi_Control Bidi_C Bidi_Mirrored Bidi_M
    Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM
    Changes_When_Lowercased CWL Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT
    Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep Diacritic Dia Emoji
    Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation EPres
    Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit
    Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS Ideographic Ideo
    Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point NChar
    Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI
    Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase
    Upper Variation_Selector VS White_Space space XID_Continue XIDC XID_Start XIDS
"""
_CATEGORY_NAMES: Final = frozenset(_CATEGORY_LIST.split())
_BINARY_NAMES: Final = frozenset(_BINARY_LIST.split())
_SCRIPT_KEYS: Final = frozenset({"Script", "sc", "Script_Extensions", "scx"})
_CATEGORY_KEYS: Final = frozenset({"General_Category", "gc"})


@lru_cache(maxsize=4096)  # lists repeat the same patterns
def is_pattern(text: str, *, unicode: bool) -> bool:
    """Whether an ECMAScript engine reads the pattern.

    Args:
        text: the pattern.
        unicode: with the flag `u`, as validators of JSON Schema do; else by the older and wider rules
            (Annex B of ECMA-262), with what its newest edition added.
    """
    try:
        _Reader(text, unicode).read_pattern()
    except _NoPattern:
        return False
    except RecursionError:
        return True  # nobody nests groups like that; whoever does is not judged here
    return True


class _NoPattern(Exception):
    """The text is no pattern."""


class _Reader:
    """Reads one pattern from the first character to the last."""

    def __init__(self, text: str, unicode: bool) -> None:
        self._text = text
        self._unicode = unicode
        self._at = 0
        self._names = _NAMED.findall(text)
        self._groups = len(_GROUP.findall(_PLAIN.sub("", text)))

    def read_pattern(self) -> None:
        """Raises `_NoPattern` if it is none."""
        if self._unicode and len(set(self._names)) < len(self._names):
            raise _NoPattern
        self._alternatives()
        if self._at < len(self._text):
            raise _NoPattern

    def _next(self) -> str:
        if self._at == len(self._text):
            raise _NoPattern
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _alternatives(self) -> None:
        """Reads to the end, or to the bracket that closes the group."""
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._term():
                self._quantifier()

    def _term(self) -> bool:
        """Reads one term; whether it may be repeated."""
        char = self._next()
        if char in "|^$":
            return False
        if char == "(":
            return self._group()
        if char == "\\":
            return self._escape()
        if char == "[":
            self._class()
        elif char in "*+?" or (char in "{}]" and self._is_misplaced(char)):
            raise _NoPattern
        return True

    def _is_misplaced(self, char: str) -> bool:
        return self._unicode or (char == "{" and _COUNT.match(self._text, self._at - 1) is not None)

    def _quantifier(self) -> None:
        match = self._take(_QUANTIFIER)
        if match is not None and match[1] and match[2] and int(match[1]) > int(match[2]):
            raise _NoPattern

    def _group(self) -> bool:
        is_repeatable = True
        rest = self._text[self._at : self._at + 3]
        if rest.startswith(("?=", "?!")):
            self._at += 2
            is_repeatable = not self._unicode
        elif rest.startswith(("?<=", "?<!")):
            self._at += 3
            is_repeatable = False
        elif rest.startswith("?:"):
            self._at += 2
        elif rest.startswith("?<"):
            self._at += 1
            if self._take(_NAME) is None:
                raise _NoPattern
        elif rest.startswith("?") and (self._unicode or self._take(_MODIFIERS) is None):
            raise _NoPattern
        self._alternatives()
        if self._at == len(self._text):
            raise _NoPattern
        self._at += 1
        return is_repeatable

    def _escape(self) -> bool:
        if self._text[self._at : self._at + 1] in ("b", "B"):
            self._at += 1
            return False
        number = self._take(_NUMBER)
        if number is not None:
            if self._unicode and int(number[0]) > self._groups:
                raise _NoPattern
        elif self._text[self._at : self._at + 1] == "k" and (self._unicode or self._names):
            self._at += 1
            name = self._take(_NAME)
            if name is None or name[1] not in self._names:
                raise _NoPattern
        else:
            self._character()
        return True

    def _class(self) -> None:
        if self._text[self._at : self._at + 1] == "^":
            self._at += 1
        while self._text[self._at : self._at + 1] != "]":
            first = self._class_atom()
            if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] == "]":
                continue
            self._at += 1
            last = self._class_atom()
            if _ANY_CLASS in (first, last):
                if self._unicode:
                    raise _NoPattern
            elif first > last:
                raise _NoPattern
        self._at += 1

    def _class_atom(self) -> int:
        char = self._next()
        if char != "\\":
            return ord(char)
        escaped = self._text[self._at : self._at + 1]
        if escaped == "b" or (escaped == "-" and self._unicode):
            self._at += 1
            return 8 if escaped == "b" else ord("-")
        return self._character()

    def _character(self) -> int:
        """Reads what follows a backslash, in a class or not; the character that it means."""
        char = self._next()
        if char in "dDsSwW":
            return _ANY_CLASS
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "pP" and self._unicode:
            self._property()
            return _ANY_CLASS
        if char == "c" and (letter := self._take(_LETTER)):
            return ord(letter[0]) % 32
        if char in "xu" and (code := self._code(char)) is not None:
            return code
        if char == "0" and not self._text[self._at : self._at + 1].isdecimal():
            return 0
        if self._unicode and char not in _SYNTAX:
            raise _NoPattern
        return ord(char)

    def _code(self, char: str) -> int | None:
        """The character of `\\x41`, `\\u0041` or `\\u{41}`; None if the digits are missing."""
        if char == "u" and self._unicode and (braced := self._take(_BRACED)):
            code = int(braced[1], 16)
            if code > 0x10FFFF:
                raise _NoPattern
            return code
        digits = self._take(_HEX[char])
        if digits is None:
            return None
        pair = self._take(_LOW_HALF) if self._is_high(digits[0]) else None
        code = int(digits[0], 16)
        return code if pair is None else 0x10000 + ((code & 0x3FF) << 10) + (int(pair[1], 16) & 0x3FF)

    def _is_high(self, digits: str) -> bool:
        return self._unicode and re.fullmatch("[Dd][89ABab][0-9A-Fa-f]{2}", digits) is not None

    def _property(self) -> None:
        match = self._take(_PROPERTY)
        if match is None:
            raise _NoPattern
        key, value = match.groups()
        if key is None:
            fits = value in _CATEGORY_NAMES or value in _BINARY_NAMES
        else:
            fits = key in _SCRIPT_KEYS or (key in _CATEGORY_KEYS and value in _CATEGORY_NAMES)
        if not fits:
            raise _NoPattern
