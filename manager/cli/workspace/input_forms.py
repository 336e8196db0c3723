"""Answers the input requests of a tool at the terminal: forms, one line for each field."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from lm_tools_bridge.protocol import names
from lm_tools_bridge.text.form_fields import Field, InvalidLine, fields
from lm_tools_bridge.text.printable import printable

CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}}
"""What a client declares that can show forms to its user."""

ReadLine = Callable[[str], str]
"""Shows a prompt and returns the line that the user types; raises EOFError at the end of the input."""


class NotAForm(Exception):
    """An input request that this terminal cannot answer; the message names its method."""


def answer_all(requests: Mapping[str, Any], tool: str, read: ReadLine | None = None) -> dict[str, Any]:
    """The answers to the input requests of one result, by key.

    The end of the input declines a form, an interrupt cancels it; both are answers.

    Raises:
        NotAForm: a request is something else.
    """
    return {key: _answer(request, tool, read or _read_line) for key, request in requests.items()}


def is_terminal() -> bool:
    """Whether a person can be asked: input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answer(request: Any, tool: str, read: ReadLine) -> dict[str, Any]:
    method = request.get("method") if isinstance(request, Mapping) else None
    params = request.get("params") if isinstance(request, Mapping) else None
    if method != names.ELICIT or not isinstance(params, Mapping) or params.get("mode", "form") != "form":
        raise NotAForm(str(method))
    message = printable(str(params.get("message", "")), lines=True)
    click.echo(f"{printable(tool)} asks: {message}\n(Ctrl-D declines, Ctrl-C cancels)", err=True)
    schema = params.get("requestedSchema")
    try:
        content = {
            field.name: _ask_field(field, read)
            for field in fields(schema if isinstance(schema, Mapping) else {})
        }
    except EOFError:
        click.echo(err=True)
        return {"action": "decline"}
    except KeyboardInterrupt:
        click.echo(err=True)
        return {"action": "cancel"}
    return {
        "action": "accept",
        "content": {name: field for name, field in content.items() if field is not None},
    }


def _ask_field(field: Field, read: ReadLine) -> Any:
    while True:
        try:
            return field.value(read(field.prompt))
        except InvalidLine as problem:
            click.echo(f"  {printable(str(problem))}", err=True)


def _read_line(prompt: str) -> str:
    click.echo(prompt, nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
