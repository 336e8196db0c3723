"""Evaluates arithmetic expressions over finite real numbers.

The grammar is our own: no text reaches `eval`, `compile` or `ast`. Every operation whose result could
grow is bounded before it is computed. `calculator.py` is the tool.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from itertools import islice

from lm_tools_bridge.text.near_names import near

MAX_LENGTH = 1_000
"""Most characters of an expression, and therefore most arguments of a function."""
_MAX_BITS = 10_000  # about 3 000 digits: below the interpreter's own limit for writing integers out
_MAX_DECIMALS = 308

Number = int | float


class InvalidExpression(Exception):
    """The expression has no value; the text tells its author why."""


def checked(value: Number | complex) -> Number:
    """Return `value` if it is a finite real number of limited size.

    Raises:
        OverflowError: the number is too large.
        ValueError: the result is not a real number.
    """
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise OverflowError if math.isinf(value) else ValueError
    if isinstance(value, int):
        if value.bit_length() <= _MAX_BITS:
            return value
        raise OverflowError
    raise ValueError


def _divide(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int) and right != 0 and left % right == 0:
        return left // right  # exact, where a double would round
    return left / right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 0:
        smallest = (abs(base).bit_length() - 1) * exponent  # lower bound for the bits of the result
        if smallest > _MAX_BITS:
            raise OverflowError
    value: Number = base**exponent
    return value


def _round(value: Number, decimals: Number = 0) -> Number:
    if not isinstance(decimals, int) or abs(decimals) > _MAX_DECIMALS:
        raise InvalidExpression(
            f"round takes a whole number of decimals between -{_MAX_DECIMALS} and {_MAX_DECIMALS}"
        )
    return round(value, decimals)


NEGATION = 3  # weaker than a power: -2**2 is -4
# operator: (precedence, lowest precedence of an operator that binds tighter on its right side, function)
BINARY: dict[str, tuple[int, int, Callable[[Number, Number], Number]]] = {
    "+": (1, 2, operator.add),
    "-": (1, 2, operator.sub),
    "*": (2, 3, operator.mul),
    "/": (2, 3, _divide),
    "//": (2, 3, operator.floordiv),
    "%": (2, 3, operator.mod),
    "**": (4, NEGATION, _power),  # right-associative, and its exponent may have a minus
}

CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
# name: (minimum and maximum number of arguments, function)
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Number]]] = {
    "sqrt": (1, 1, math.sqrt),
    "abs": (1, 1, abs),
    "round": (1, 2, _round),
    "min": (1, MAX_LENGTH, lambda *values: min(values)),
    "max": (1, MAX_LENGTH, lambda *values: max(values)),
    "floor": (1, 1, math.floor),
    "ceil": (1, 1, math.ceil),
    "log": (1, 2, math.log),
    "log2": (1, 1, math.log2),
    "log10": (1, 1, math.log10),
    "exp": (1, 1, math.exp),
    "sin": (1, 1, math.sin),
    "cos": (1, 1, math.cos),
    "tan": (1, 1, math.tan),
    "asin": (1, 1, math.asin),
    "acos": (1, 1, math.acos),
    "atan": (1, 1, math.atan),
}


_MAX_NESTING = 50
"""Brackets in brackets: far below the depth at which the parser, which calls itself, would end at Python's
limit."""

_TOKEN = re.compile(
    r"[ \t\r\n]*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[A-Za-z_][A-Za-z0-9_]*|\*\*|//|[-+*/%(),]|\Z|.)",
    re.DOTALL,
)
_UNKNOWN_CHARACTER = re.compile(r"[^ \t\r\n0-9A-Za-z_.+*/%(),-]")
_NUMBERS_BEGIN = frozenset("0123456789.")
_OPERATORS = frozenset({"**", "//", "-", "+", "*", "/", "%", "(", ")", ","})
_HINTS = {
    "^": "; write ** for a power",
    "×": "; write *",
    "·": "; write *",
    "÷": "; write /",
    "−": "; write -",
    "√": "; write sqrt(…)",
    "π": "; write pi",
    "!": "; factorials are not supported",
    "=": "; write only the side to be computed",
    "'": "; only numbers can be computed",
    '"': "; only numbers can be computed",
    "[": "; write ( )",
    "{": "; write ( )",
}
# (token, whether it follows a value): what to write instead
_TOKEN_HINTS = {
    (",", True): "; write decimals with a point and no thousands separator",
    (")", True): "; no parenthesis is open there",
}


def _unexpected_character(expression: str, tokens: list[str]) -> InvalidExpression | None:
    """The error for the first character that no expression contains; None if there is none."""
    if _UNKNOWN_CHARACTER.search(expression) is None and "." not in tokens:
        return None
    index = next(at for at, text in enumerate(tokens) if text == "." or _UNKNOWN_CHARACTER.match(text))
    char = tokens[index]
    at = _position(expression, index)
    return InvalidExpression(f"Unexpected character {char!r} at position {at}{_HINTS.get(char, '')}")


def _position(expression: str, index: int) -> int:
    """The position of a token in characters, from 1."""
    return next(islice(_TOKEN.finditer(expression), index, None)).start(1) + 1


_NAMES = (*CONSTANTS, *FUNCTIONS)


class _Parser:
    """Parses and computes one expression by precedence climbing.

    Attributes:
        failure: the error of the first operation without a value. Parsing goes on after it, because a syntax
            error takes precedence.
    """

    __slots__ = ("_nesting", "_next", "_text", "_tokens", "_word", "failure")

    def __init__(self, expression: str, tokens: list[str]) -> None:
        self._text = expression
        self._tokens = tokens
        self._next = 0
        self._word = tokens[0]
        self._nesting = 0
        self.failure: InvalidExpression | None = None

    def read(self) -> Number:
        """Return the value, or 0 if there is a failure."""
        value = self._expression(0)
        if self._word:
            raise self._unexpected()
        return value if self.failure is None else 0

    def _advance(self) -> None:
        self._next = index = self._next + 1
        self._word = self._tokens[index]

    def _place(self, index: int) -> int:
        return _position(self._text, index)

    def _unexpected(self) -> InvalidExpression:
        text, index = self._word, self._next
        if not text:
            return InvalidExpression("Expression is incomplete")
        before = self._tokens[index - 1] if index else "("
        follows_value = before not in _OPERATORS or before == ")"
        hint = _TOKEN_HINTS.get((text, follows_value), "")
        if text.startswith("_"):
            hint = _TOKEN_HINTS[",", True]
        elif follows_value and (text not in _OPERATORS or text == "("):
            hint = "; an operator is missing before it"
        return InvalidExpression(f"Unexpected '{text}' at position {self._place(index)}{hint}")

    def _expression(self, lowest: int) -> Number:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            position = self._place(self._next)
            raise InvalidExpression(
                f"Expression is nested too deeply at position {position}; split it into steps"
            )
        value = self._operand()
        while (rule := BINARY.get(self._word)) is not None and rule[0] >= lowest:
            sign = self._next
            self._advance()
            value = self._apply(rule[2], sign, value, self._expression(rule[1]))
        self._nesting -= 1
        return value

    def _operand(self) -> Number:
        word, index = self._word, self._next
        if word[:1] in _NUMBERS_BEGIN and word != ".":
            self._advance()
            return int(word) if word.isdigit() else self._decimal(word, index)
        if word in {"-", "+"}:
            self._advance()
            sign = operator.neg if word == "-" else operator.pos
            return self._apply(sign, index, self._expression(NEGATION))
        if word == "(":
            self._advance()
            value = self._expression(0)
            self._close()
            return value
        if not word or word in _OPERATORS:
            raise self._unexpected()
        self._advance()
        return self._name(word, index)

    def _close(self) -> None:
        if self._word != ")":
            raise self._unexpected()
        self._advance()

    def _name(self, name: str, index: int) -> Number:
        signature = FUNCTIONS.get(name)
        if signature is None:
            return self._constant(name, index)
        if self._word != "(":
            raise InvalidExpression(
                f"'{name}' at position {self._place(index)} is a function; write {name}(…)"
            )
        self._advance()
        values = self._arguments()
        least, most, function = signature
        if least <= len(values) <= most:
            return self._apply(function, index, *values)
        count = str(least) if least == most else f"{least} or {most}" if most == 2 else f"at least {least}"
        raise InvalidExpression(
            f"{name} at position {self._place(index)} takes {count} argument(s), got {len(values)}"
        )

    def _constant(self, name: str, index: int) -> Number:
        if name in CONSTANTS:
            return CONSTANTS[name]
        close = near(name, _NAMES)
        guess = f" did you mean {close[0]}?" if close else ""
        at = self._place(index)
        raise InvalidExpression(
            f"Unknown name '{cut(name)}' at position {at};{guess} known are {', '.join(_NAMES)}"
        )

    def _arguments(self) -> list[Number]:
        values: list[Number] = []
        if self._word != ")":
            values.append(self._expression(0))
            while self._word == ",":
                self._advance()
                values.append(self._expression(0))
        self._close()
        return values

    def _decimal(self, token: str, index: int) -> float:
        value = float(token)
        if math.isinf(value):
            raise InvalidExpression(f"Number is too large at position {self._place(index)}")
        return value

    def _apply(self, function: Callable[..., Number], sign: int, *values: Number) -> Number:
        """Compute an operation; `sign` is the index of its token."""
        if self.failure is not None:
            return 0
        try:
            return checked(function(*values))
        except (ZeroDivisionError, OverflowError, ValueError, InvalidExpression) as error:
            self.failure = self._explain(error, sign, values)
            return 0

    def _explain(self, error: Exception, sign: int, values: Sequence[Number]) -> InvalidExpression:
        match error:
            case InvalidExpression():
                return error
            case ZeroDivisionError():
                return InvalidExpression("Division by zero")
            case OverflowError():
                return InvalidExpression(f"Result is too large at position {self._place(sign)}")
        argument_text = cut(", ".join(number_text(value) for value in values))
        where = f"'{self._tokens[sign]}' at position {self._place(sign)}"
        return InvalidExpression(f"Result of {where} is not a real number for {argument_text}")


def evaluate(expression: str) -> Number:
    """Compute the value of `expression`.

    Raises:
        InvalidExpression: the syntax is invalid, or the value is not a real number of limited size.
    """
    if len(expression) > MAX_LENGTH:
        raise InvalidExpression(
            f"Expression has {len(expression)} characters, {MAX_LENGTH} are allowed; split it into steps"
        )
    tokens: list[str] = _TOKEN.findall(expression)
    parser = _Parser(expression, tokens)
    try:
        value = parser.read()
    except InvalidExpression as refused:
        if not expression.strip():
            raise InvalidExpression("Expression is empty; write one such as 2 + 2") from None
        raise _unexpected_character(expression, tokens) or refused from None
    if parser.failure is not None:
        raise parser.failure
    return value


def number_text(value: Number) -> str:
    """Format integers exactly, other numbers with 15 significant digits."""
    return str(value) if isinstance(value, int) else format(value, ".15g")


def cut(text: str, limit: int = 80) -> str:
    """Shorten `text` to at most `limit` characters; the last one is `…` if characters are left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
