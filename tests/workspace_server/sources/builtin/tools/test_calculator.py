"""The calculator: exact where it can be, bounded where it must be, and plain about mistakes."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from workspace_server.sources.builtin.tools.calculator import TOOL, call
from workspace_server.tool import ToolError

OUTPUT = jsonschema_rs.validator_for(TOOL.definition["outputSchema"], offline=True)


async def refusal_of(expression: str) -> str:
    with pytest.raises(ToolError) as caught:
        await call({"expression": expression})
    return caught.value.message


async def shortest_run(expression: str) -> float:
    """Processor seconds of the quickest of three runs, which no garbage collection interrupts."""
    spent = []
    for _ in range(3):
        begun = time.process_time()
        with suppress(ToolError):
            await call({"expression": expression})
        spent.append(time.process_time() - begun)
    return min(spent)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("2 + 2", "4"),
        ("8/2", "4"),
        ("0.1+0.2", "0.3"),
        ("2**10", "1024"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("-2**2", "-4"),
        ("2**-1", "0.5"),
        ("2**3**2", "512"),
        ("2 - 3 - 4", "-5"),
        ("2 * -(3 + 1)", "-8"),
        ("1e3", "1000"),
        (".5 + 1.", "1.5"),
        ("pi", "3.14159265358979"),
        ("tau / pi", "2"),
        ("log(e)", "1"),
        ("log(8, 2)", "3"),
        ("log2(8) + log10(100)", "5"),
        ("sqrt(16)", "4"),
        ("abs(-3)", "3"),
        ("round(2.567, 2)", "2.57"),
        ("min(3, 1, 2) + max(4)", "5"),
        ("floor(-0.5) + ceil(0.5)", "0"),
        ("exp(0) + sin(0) + cos(0) + tan(0)", "2"),
        ("asin(0) + acos(1) + atan(0)", "0"),
        ("-0.0", "0"),
        ("+5", "5"),
        ("+5 - -+3", "8"),
        ("2 * +3", "6"),
        ("2**60 / 2", "576460752303423488"),
        ("1" + "+1" * 499, "500"),
    ],
)
async def test_expression_has_its_value_as_text(expression: str, text: str) -> None:
    result = await call({"expression": expression})
    assert (result.text, result.is_error) == (text, False)
    assert OUTPUT.is_valid(result.structured)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("8/2", 4),
        ("0.5", 0.5),
        ("2**53-1", 9007199254740991),
        ("2**53", "9007199254740992"),
        ("-2**53", "-9007199254740992"),
        ("1e20", "1e+20"),
    ],
)
async def test_value_is_a_string_where_a_double_is_not_exact(expression: str, value: object) -> None:
    result = await call({"expression": expression})
    assert result.structured == {"value": value}
    assert OUTPUT.is_valid(result.structured)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("2 +", "Error: Invalid expression '2 +'- Expression is incomplete"),
        ("1/0", "Error: Invalid expression '1/0'- Division by zero"),
        ("1 % 0", "Error: Invalid expression '1 % 0'- Division by zero"),
        ("0**-1", "Error: Invalid expression '0**-1'- Division by zero"),
        ("(1", "Error: Invalid expression '(1'- Expression is incomplete"),
        ("max(1,", "Error: Invalid expression 'max(1,'- Expression is incomplete"),
        ("2**10**9", "Error: Invalid expression '2**10**9'- Result is too large at position 2"),
        (
            "__import__('os')",
            "Error: Invalid expression '__import__('os')'- Unexpected character \"'\" at position 12; "
            "only numbers can be computed",
        ),
        (
            "2^3",
            "Error: Invalid expression '2^3'- Unexpected character '^' at position 2; write ** for a power",
        ),
    ],
)
async def test_failure_is_told_in_the_agreed_form(expression: str, text: str) -> None:
    assert await refusal_of(expression) == text


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "Expression is empty"),
        ("   ", "Expression is empty"),
        ("1" * 1001, "1001 characters, 1000 are allowed"),
        ("(" * 60 + "1", "nested too deeply at position 51"),
        ("foo", "Unknown name 'foo' at position 1; did you mean floor? known are pi, e, tau, sqrt"),
        ("1 + sqtr(2)", "Unknown name 'sqtr' at position 5; did you mean sqrt?"),
        ("sqrt", "'sqrt' at position 1 is a function; write sqrt(…)"),
        ("sqrt(1, 2)", "sqrt at position 1 takes 1 argument(s), got 2"),
        ("log()", "log at position 1 takes 1 or 2 argument(s), got 0"),
        ("min()", "min at position 1 takes at least 1 argument(s), got 0"),
        ("2 3", "Unexpected '3' at position 3; an operator is missing before it"),
        ("2pi", "Unexpected 'pi' at position 2; an operator is missing"),
        ("1,5", "write decimals with a point"),
        ("1_000", "no thousands separator"),
        ("2)", "no parenthesis is open there"),
        ("2 */ 3", "Unexpected '/' at position 4"),
        ("1e400", "Number is too large at position 1"),
        ("1e308 * 10", "Result is too large at position 7"),
        ("10**400 + 0.5", "Result is too large at position 9"),
        ("round(5, -10**5)", "between -308 and 308"),
        ("(-8) ** 0.5", "Result of '**' at position 6 is not a real number for -8, 0.5"),
        ("log(0)", "Result of 'log' at position 1 is not a real number for 0"),
        ("asin(2)", "Result of 'asin' at position 1"),
    ],
)
async def test_reason_names_the_place_and_the_remedy(expression: str, reason: str) -> None:
    assert reason in await refusal_of(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "lambda: 1",
        "1 if 1 else 2",
        "[1][0]",
        "x := 1",
        "1 < 2",
        "1 and 2",
        "True",
        "0x10",
        "1j",
        "'a'*9",
        "ｐｉ",
        "1 # 2",
    ],
)
async def test_nothing_of_python_beyond_the_grammar_is_read(expression: str) -> None:
    assert (await refusal_of(expression)).startswith("Error: Invalid expression '")


async def test_long_expression_is_echoed_short() -> None:
    assert len(await refusal_of("1+" * 5_000)) < 200


FRAGMENTS = st.sampled_from(
    ["9", "0", "1e308", "1e-308", "7.5", "**", "*", "//", "/", "%", "-", "+", "(", ")", ",", " "]
    + [f"{name}(" for name in ("sqrt", "round", "min", "floor", "ceil", "log", "exp", "tan", "abs")]
    + ["pi", "e", "99999999999", "é", "\ud800", "\n"]
)


@examples(400)
@given(st.one_of(st.lists(FRAGMENTS, max_size=60).map("".join), st.text(max_size=40)))
async def test_any_text_gives_a_finite_value_or_a_refusal_in_bounded_time(expression: str) -> None:
    try:
        result: Any = await call({"expression": expression})
    except ToolError as error:
        assert error.message.startswith("Error: Invalid expression '")
    else:
        assert OUTPUT.is_valid(result.structured)
        value = result.structured["value"]
        assert isinstance(value, str) or math.isfinite(value)
    assert await shortest_run(expression) < 0.05


@pytest.mark.parametrize(
    "expression",
    [
        "9" * 1000,
        "9" * 499 + "*" + "9" * 499,
        "*".join(["9" * 99] * 10),
        "**".join(["9"] * 50),
        "9**9**9**9",
        "-" * 999 + "1",
    ],
)
async def test_worst_expressions_end_within_the_limit(expression: str) -> None:
    """50 ms, measured as processor time."""
    assert await shortest_run(expression) < 0.05


@examples(200)
@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12), st.sampled_from(["+", "-", "*"]))
async def test_integer_arithmetic_is_exact(left: int, right: int, sign: str) -> None:
    expected = {"+": left + right, "-": left - right, "*": left * right}[sign]
    assert (await call({"expression": f"({left}) {sign} ({right})"})).text == str(expected)


def test_definition_promises_a_harmless_tool() -> None:
    assert TOOL.definition["name"] == TOOL.name == "calculator"
    assert TOOL.definition["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
