"""The verb call: calls a tool as a stateless MCP client, and asks at the terminal what the tool asks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason
from lm_tools_bridge.protocol.inbound import MISSING_CAPABILITY
from lm_tools_bridge.terminal.command_line import (
    Failure,
    examples,
    is_json,
    json_option,
    print_json,
    say,
    to_the_user,
)
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.form_fields import Field, InvalidLine, fields
from lm_tools_bridge.text.printable import printable
from manager import __version__, exit_codes
from manager.cli import completion
from manager.cli.output.manager_access import current_folder, explained, mcp_address, unmatched, user_paths
from manager.client import McpAnswer, McpClient

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


# A tool that asks more often asks in a circle.
MAX_ROUNDS: Final = 10
_EXAMPLE: Final = """In single quotes for the shell, such as: lmtb call lm_findFiles '{"query": "*.py"}'"""
ANSWER_STEP: Final = (
    "run this command at a terminal, without --json, or call the tool from a client that supports elicitation"
)
_cwd_option = click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    help="A folder in the workspace; default: the current folder.",
)


@click.command(
    epilog=examples('lmtb call lm_findFiles \'{"query": "*.py"}\'', "lmtb call datetime --cwd ~/shop")
)
@click.argument("name", shell_complete=completion.callable_tools)
@click.argument("arguments", metavar="[JSON]", required=False)
@_cwd_option
@json_option
def call(name: str, arguments: str | None, cwd: Path | None, as_json: bool) -> None:
    """Call a tool of a folder's workspace.

    JSON is an object of arguments; `-` reads it from standard input. Prints the tool's result; an error
    result goes to standard error, with exit code 1. If the tool asks for input, a terminal shows its form,
    one line for each field.
    """
    result = _called(name, _parse(arguments), cwd)
    failed = bool(result.get("isError"))
    if as_json:
        if failed:
            raise _tool_failure(result)
        print_json({"result": result})
        return
    _print_result(result, to_stderr=failed, is_refusal=bool(_error_of(result)))
    if failed and _needs_terminal(result):
        say(f"Or {ANSWER_STEP}.", err=True)
    if failed:
        raise SystemExit(exit_codes.FAILED)


def _tool_failure(result: Mapping[str, Any]) -> Failure:
    """An error result for programs."""
    error = _error_of(result)
    text, _, written = "\n".join(_texts(result)).rpartition("\nNext step: ")
    step = written if text else "change the arguments as the message says"
    return Failure(
        str(error.get("message") or text or written),
        ANSWER_STEP if _needs_terminal(result) else str(error.get("nextStep") or step),
        reason=str(error.get("reason") or "tool_failed"),
        members={"result": result},
    )


def _called(name: str, arguments: Mapping[str, object], cwd: Path | None) -> dict[str, Any]:
    """The result of the call. At a terminal, the tool's input requests are answered there."""
    capabilities = CAPABILITIES if _can_ask() else None
    own = own_headers(user_paths().runtime_dir)
    folder = current_folder(cwd)
    client = McpClient(mcp_address(), folder, __version__, capabilities, own_headers=own)
    params: dict[str, object] = {"name": name, "arguments": arguments}
    answers: dict[str, object] = {}
    for _ in range(MAX_ROUNDS):
        result = _result(_ask(client, "tools/call", {**params, **answers}), folder)
        if result.get("resultType", "complete") != "input_required":
            return result
        if not _can_ask():
            raise Failure(
                f"{name} asks for input, and nobody is asked here", ANSWER_STEP, reason="input_required"
            )
        requests = result.get("inputRequests")
        try:
            responses = answer_all(requests if isinstance(requests, dict) else {}, name)
        except NotAForm as other:
            text = f"{name} asks for input that is no form ({other}), which this command cannot give"
            raise Failure(text, "call it from a client that supports it", reason="input_required") from other
        answers = {"inputResponses": responses}
        answers |= {"requestState": result["requestState"]} if "requestState" in result else {}
    raise Failure(f"{name} asked for input {MAX_ROUNDS} times", "call it from another client")


def _needs_terminal(result: Mapping[str, Any]) -> bool:
    """Whether the call was refused because nobody can be asked here."""
    return not _can_ask() and _error_of(result).get("reason") == Reason.APPROVAL_REQUIRED.word


def _can_ask() -> bool:
    return is_terminal() and not is_json()


def _error_of(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The refusal in an error result; {} if the tool itself made it."""
    content = result.get("structuredContent")
    error = content.get("error") if isinstance(content, dict) else None
    return error if isinstance(error, dict) else {}


def _ask(client: McpClient, method: str, params: Mapping[str, object]) -> McpAnswer:
    with explained(), waiting(f"waiting for {params.get('name', method)}"):
        return client.request(method, params)


def _result(answer: McpAnswer, folder: str) -> dict[str, Any]:
    if "error" in answer.message:
        error = answer.message["error"]
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        if error.get("code") == MISSING_CAPABILITY:
            text = "the tool asks for input, and this command has no terminal or cannot give such input"
            raise Failure(text, ANSWER_STEP, reason="input_required")
        if data.get("reason") == Reason.WORKSPACE_NOT_MATCHED.word:
            raise unmatched(folder)
        raise Failure(
            str(error.get("message", "error")).partition(" Next step: ")[0].removesuffix("."),
            str(data.get("nextStep") or "list the tools with: lmtb tools"),
            reason=str(data.get("reason") or "error"),
        )
    result = answer.message.get("result")
    if not isinstance(result, dict):
        raise Failure("the answer has no result that is an object", "look at what the server logs: lmtb log")
    return result


def _parse(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == "-":
        text = sys.stdin.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        from lm_tools_bridge.text.jsonc_parser import json_problem

        problem = json_problem(text).sentence()
        raise click.UsageError(f"the arguments are not JSON; {problem}. {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"the arguments must be a JSON object. {_EXAMPLE}")
    return value


_SCHEMA: Final = re.compile(r"; its whole schema is the resource \S+")
"""Where a model reads on. A person has the arguments in the line before, and no verb that reads resources."""
_TWICE: Final = "Error: Error "
"""How a tool's own text begins that says already that it is an error."""


def _for_person(text: str, *, is_refusal: bool) -> str:
    """The text of a failure as the person reads it who called: refusals are written for a model."""
    text = text.removeprefix("Error: ") if text.startswith(_TWICE) else text
    return to_the_user(_SCHEMA.sub("", text)) if is_refusal else text


def _print_result(result: Mapping[str, Any], *, to_stderr: bool, is_refusal: bool = False) -> None:
    stream = sys.stderr if to_stderr else sys.stdout
    texts = _texts(result)
    if to_stderr:
        texts = [_for_person(text, is_refusal=is_refusal) for text in texts]
    if not any(text.strip() for text in texts):
        say("The tool answered without content.", err=True)
    for text in texts:
        if stream.isatty():
            # a tool's text may hold sequences that act on a terminal
            click.echo(printable(text, lines=True), err=to_stderr)
        else:
            click.echo(text.encode("utf-8", "backslashreplace"), err=to_stderr)


def _texts(result: Mapping[str, Any]) -> list[str]:
    content = result.get("content")
    texts = [_block_text(block) for block in content] if isinstance(content, list) else []
    if not texts and "structuredContent" in result:
        texts = [json.dumps(result["structuredContent"], indent=2)]
    return texts


def _block_text(block: object) -> str:
    """A content block as text; what is no text is named."""
    if not isinstance(block, dict):
        return json.dumps(block)
    resource = block.get("resource")
    for holder in (block, resource if isinstance(resource, dict) else {}):
        if isinstance(holder.get("text"), str):
            return str(holder["text"])
    kind = block.get("type", "content")
    about = block.get("uri") or block.get("mimeType") or (resource or {}).get("uri") or ""
    return f"[{kind} {about}]; print it whole with --json"
