"""Verbs that use tools the way a stateless client does: tools, call."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from manager import __version__, exit_codes
from manager.cli.output import Failure, print_json, printable, table
from manager.cli.reach import explained, mcp_address
from manager.client import McpAnswer, McpClient

MAX_PAGES: Final = 50
_cwd_option = click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    help="A folder in the workspace; default: the current folder.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.command()
@_cwd_option
@_json_option
def tools(cwd: Path | None, as_json: bool) -> None:
    """List the tools of a folder's workspace."""
    client, folder = _client(cwd)
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        answer = _ask(client, "tools/list", {} if cursor is None else {"cursor": cursor})
        result = _result(answer)
        found += [tool for tool in result.get("tools", []) if isinstance(tool, dict)]
        cursor = result.get("nextCursor")
        if not cursor:
            break
    if as_json:
        print_json({"ok": True, "workspace": answer.workspace, "source": answer.source, "tools": found})
        return
    _say_whose(answer, folder)
    rows = [(tool.get("name"), _first_sentence(tool.get("description"))) for tool in found]
    click.echo(table(("TOOL", "DESCRIPTION"), rows, flexible=("DESCRIPTION",)))


@click.command()
@click.argument("name")
@click.argument("arguments", metavar="[JSON]", required=False)
@_cwd_option
@_json_option
def call(name: str, arguments: str | None, cwd: Path | None, as_json: bool) -> None:
    """Call a tool of a folder's workspace.

    JSON is an object of arguments; `-` reads it from standard input. What the tool says is printed; a tool's
    error goes to standard error, with exit code 1.
    """
    params = {"name": name, "arguments": _parse(arguments)}
    client, _ = _client(cwd)
    result = _result(_ask(client, "tools/call", params))
    failed = bool(result.get("isError"))
    if as_json:
        print_json(result)
    elif result.get("resultType", "complete") != "complete":
        raise Failure(
            f"{name} asks back before it answers, and nobody can be asked here",
            "call it from an agent that can answer",
        )
    else:
        _print_result(result, to_stderr=failed)
    if failed:
        raise SystemExit(exit_codes.FAILED)


def _client(cwd: Path | None) -> tuple[McpClient, str]:
    try:
        folder = str((cwd or Path()).absolute())
    except FileNotFoundError as error:
        raise Failure("the current folder no longer exists", "go to another one, or use --cwd") from error
    return McpClient(mcp_address(), folder, __version__), folder


def _ask(client: McpClient, method: str, params: Mapping[str, object]) -> McpAnswer:
    with explained():
        return client.request(method, params)


def _result(answer: McpAnswer) -> dict[str, Any]:
    if "error" in answer.message:
        error = answer.message["error"]
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        raise Failure(
            str(error.get("message", "error")).partition(" Next step: ")[0].removesuffix("."),
            str(data.get("nextStep") or "list the tools with: lmtb tools"),
            reason=str(data.get("reason") or "error"),
        )
    result: dict[str, Any] = answer.message["result"]
    return result


def _parse(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == "-":
        text = sys.stdin.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"the arguments are no JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError('the arguments must be a JSON object, such as {"query": "*.py"}')
    return value


def _say_whose(answer: McpAnswer, folder: str) -> None:
    if answer.workspace is not None:
        click.echo(f"workspace {printable(answer.workspace)} of {printable(folder)}", err=True)
        return
    click.echo(
        f"{printable(folder)} is in no workspace; these are the manager's own tools. A project folder is"
        " recognised by .git, .lm-tools-bridge, .vscode or a *.code-workspace file.",
        err=True,
    )


def _first_sentence(description: object) -> str:
    text = " ".join(description.split()) if isinstance(description, str) else ""
    return text.split(". ", 1)[0].removesuffix(".")


def _print_result(result: Mapping[str, Any], *, to_stderr: bool) -> None:
    content = result.get("content")
    texts = [_block_text(block) for block in content] if isinstance(content, list) else []
    if not texts and "structuredContent" in result:
        texts = [json.dumps(result["structuredContent"], indent=2)]
    stream = sys.stderr if to_stderr else sys.stdout
    for text in texts:
        if stream.isatty():
            # a tool's text may hold sequences that act on a terminal (MO4)
            click.echo(printable(text, lines=True), err=to_stderr)
        else:
            click.echo(text.encode("utf-8", "backslashreplace"), err=to_stderr)


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
    return f"[{kind} {about}]; see it whole with --json"
