"""Scripts written for an older program, and their known answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.projects.script_tools import Scripts, script_source
from workspace_server.schemas.validation import validator_for
from workspace_server.tool import ToolResult

GREET = """
import llmr.mcp as mcp

name = mcp.get("name", "World")
mcp.return_string(f"Bonjour {name}!" if name else "Hello, World!")
"""
CALCULATOR = """
import llmr.mcp as mcp

operation = mcp.get_string("operation")
a, b = mcp.get_float("a"), mcp.get_float("b")
if operation == "divide" and b == 0:
    mcp.return_error("Division by zero")
table = {"add": lambda: a + b, "subtract": lambda: a - b, "multiply": lambda: a * b, "divide": lambda: a / b}
if operation not in table:
    mcp.return_error("Unknown operation")
mcp.return_string(table[operation]())
"""
STRINGS = """
from llmr.mcp import get_string, return_error, return_string

text, operation = get_string("text"), get_string("operation")
if operation == "reverse":
    return_string(text[::-1])
if operation == "capitalize":
    return_string(text.title())
if operation == "count_words":
    return_string(f"The text has {len(text.split())} word(s)")
if operation == "remove_spaces":
    return_string(text.replace(" ", ""))
if operation == "is_palindrome":
    letters = [letter for letter in text.lower() if letter.isalnum()]
    return_string(f"{text!r} is {'' if letters == letters[::-1] else 'not '}a palindrome!")
return_error("Unknown operation")
"""
WEATHER = """
import scriptling.mcp.tool as tool

degrees, unit = 22, tool.get_string("unit", "celsius")
if unit == "fahrenheit":
    degrees = degrees * 9 / 5 + 32
tool.return_string(f"Weather in {tool.get_string('location')}: {degrees} degrees {unit}")
"""
TEXT = '[parameters.{0}]\ntype = "string"\n'
NUMBERS = "".join(f'[parameters.{name}]\ntype = "number"\nrequired = true\n' for name in "ab")
PALINDROME = "Never odd or even"

ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("greet", {}, "Bonjour World!"),
    ("greet", {"name": "Bob"}, "Bonjour Bob!"),
    ("greet", {"name": ""}, "Hello, World!"),
    ("calculator", {"operation": "add", "a": 5, "b": 3}, "8.0"),
    ("calculator", {"operation": "multiply", "a": 7, "b": 8}, "56.0"),
    ("calculator", {"operation": "divide", "a": 1, "b": 0}, "Error: Division by zero"),
    ("calculator", {"operation": "root", "a": 1, "b": 0}, "Error: Unknown operation"),
    ("string_processor", {"text": PALINDROME, "operation": "reverse"}, "neve ro ddo reveN"),
    ("string_processor", {"text": PALINDROME, "operation": "capitalize"}, "Never Odd Or Even"),
    ("string_processor", {"text": PALINDROME, "operation": "count_words"}, "The text has 4 word(s)"),
    ("string_processor", {"text": PALINDROME, "operation": "remove_spaces"}, "Neveroddoreven"),
    ("string_processor", {"text": PALINDROME, "operation": "is_palindrome"}, "'Never odd or even' is a palindrome!"),
    ("weather_checker", {"location": "London"}, "Weather in London: 22 degrees celsius"),
    ("weather_checker", {"location": "London", "unit": "fahrenheit"}, "Weather in London: 71.6 degrees fahrenheit"),
]  # fmt: skip


def write_all(scripts: Scripts) -> None:
    scripts.write("greet", GREET, TEXT.format("name"))
    scripts.write("calculator", CALCULATOR, TEXT.format("operation") + NUMBERS)
    scripts.write("string_processor", STRINGS, TEXT.format("text") + TEXT.format("operation"))
    scripts.write("weather_checker", WEATHER, TEXT.format("location") + TEXT.format("unit"))


async def test_known_answers(tmp_path: Path) -> None:
    """A text is the text, in no wrapping."""
    async with script_source(tmp_path) as scripts:
        write_all(scripts)
        await scripts.source.list_tools()
        results = await asyncio.gather(*(scripts.result(name, **given) for name, given, _ in ANSWERS))
    assert [result.text for result in results] == [text for _, _, text in ANSWERS]
    assert [result.is_error for result in results] == [text.startswith("Error") for _, _, text in ANSWERS]
    assert all(isinstance(result, ToolResult) and not result.blocks for result in results)


async def test_a_missing_argument_is_found_by_the_schema(tmp_path: Path) -> None:
    """Missing `b`."""
    async with script_source(tmp_path) as scripts:
        write_all(scripts)
        tools = {tool.name: tool for tool in await scripts.source.list_tools()}
    problems = validator_for(tools["calculator"].input_schema).check({"operation": "add", "a": 1})
    assert [(problem.pointer, problem.keyword) for problem in problems] == [("/b", "required")]
