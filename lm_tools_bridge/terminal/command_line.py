"""What the verbs of both programs share: failures with a next step, JSON output, questions at the terminal.

With `--json`, standard output is one object: `{"ok": true, …}`, or `{"ok": false, "error": {…}, …}` if the
verb failed, also for wrong usage. Verbs that go on for long print one object a line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, Final, NoReturn, TypeVar

import click

from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.views import Note, Tone, View
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.quantities import seconds_of

_LONGEST_S: Final = 36_500 * 86_400.0
"""A hundred years: whoever writes more has mistyped."""


class Length(click.ParamType[float]):
    """A length of time in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds of a text."""
        seconds = value if isinstance(value, float) else seconds_of(str(value))
        if seconds is None or not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no length of time, such as 30s, 5m, 2h or 3d", param, ctx)
        return seconds


_LINE: Final = 200
"""The longest first sentence of a verb; click would cut it at 45 characters."""
Command = TypeVar("Command", bound=Callable[..., object])
_JSON: Final = "lm_tools_bridge.terminal.command_line.json"


class Failure(click.ClickException):
    """A verb failed: what happened, the next step, the exit code.

    Args:
        reason: a word for programs.
        members: what a program gets in addition, beside `error`.
    """

    def __init__(
        self,
        message: str,
        next_step: str,
        *,
        exit_code: int = 1,
        reason: str = "failed",
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.next_step = next_step
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it on the class, and reads it here
        self.reason = reason
        self.members = members or {}

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it for people."""
        first, *more = self.message.split("\n")
        show(Note(first, Tone.BAD), *more, f"Next step: {to_the_user(self.next_step)}", err=True)


_ASKED: Final = (
    ("ask the user whether", "decide whether"),
    ("ask the user what to do instead", "do something else"),
    ("ask the user to allow", "allow"),
    ("ask the user to ", ""),
    ("the user has not trusted", "you have not trusted"),
    ("the user runs", "run"),
    (" and to run", ", then run"),
    (" or to run", " or run"),
    (", or to ", ", or "),
)


def to_the_user(step: str) -> str:
    """A next step that was written for a model, as its user reads it: it is the user that is asked."""
    if "ask the user" in step:
        for words, instead in _ASKED:
            step = step.replace(words, instead)
    return step


def examples(*lines: str) -> str:
    """The end of a verb's help: commands as a person would type them, each in a line of its own."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class SubVerbs(click.Group):
    """The verbs of a verb, such as those of `lmtb tools`: with near names for a mistyped one.

    The verb `list` works everywhere: a group that lists something without a verb does that, another one shows
    its status.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; `list` stands for what the group does alone, else for its `status`."""
        if args[:1] == ["list"] and "list" not in self.commands:
            if self.invoke_without_command:
                args = args[1:]
            elif "status" in self.commands:
                args = ["status", *args[1:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a verb by its name."""
        verb, verbs = args[0], self.list_commands(ctx)
        if verb not in verbs and not verb.startswith("-") and not ctx.resilient_parsing:
            near = did_you_mean(verb, verbs) or f"; it has {', '.join(verbs)}"
            ctx.fail(f"there is no verb {printable(verb)!r} of {ctx.command_path}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each verb, over several lines if it is long."""
        verbs = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        lines = [
            (name, verb.get_short_help_str(limit=_LINE))
            for name, verb in verbs.items()
            if verb is not None and not verb.hidden
        ]
        if lines:
            with formatter.section("Verbs"):
                formatter.write_dl(lines)


class VerbGroup(click.Group):
    """A group whose failures are an object on standard output if `--json` is among the words.

    Args:
        modules: for each verb, the module that is imported when it is used, and the command's name in it.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, tuple[str, str]] | None = None, **attrs: Any
    ) -> None:
        super().__init__(*args, **attrs)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of their table."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb."""
        if cmd_name not in self._modules:
            return None
        module, name = self._modules[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run the command line, as `click.Command.main` does."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
        if not extra.get("standalone_mode", True):
            return super().main(args, *rest, **extra)
        extra["standalone_mode"] = False
        try:
            try:
                code = super().main(args, *rest, **extra)
            except click.ClickException as error:
                _end(error, as_json=as_json)
            except click.Abort:
                _end(Failure("interrupted", "run it again", reason="interrupted"), as_json=as_json)
        except OSError as error:
            _end_on_fault(error)
        sys.exit(code if isinstance(code, int) else 0)


def _end_on_fault(error: OSError) -> NoReturn:
    """End with one line about what the system refused, such as output to a full disk."""
    with suppress(OSError):
        # what is still buffered would fail again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    what = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
    with suppress(OSError):
        Failure(what, "check the disk, and where the output goes").show()
    sys.exit(1)


def _end(error: click.ClickException, *, as_json: bool) -> NoReturn:
    if as_json:
        _print_failure(error)
    error.show()
    sys.exit(error.exit_code)


def _print_failure(error: click.ClickException) -> None:
    if isinstance(error, Failure):
        reason, step, members = error.reason, error.next_step, error.members
    else:
        context = getattr(error, "ctx", None)
        reason, members = "usage", {}
        step = f"see: {context.command_path if context else 'lmtb'} --help"
    failure = {"reason": reason, "message": error.format_message(), "nextStep": step}
    print_line({"ok": False, "error": failure, **members})


def say(*views: View, err: bool = False) -> None:
    """Print views for people, one below the other, which `--json` suppresses."""
    if not is_json():
        show(*views, err=err)


def print_json(members: Mapping[str, object]) -> None:
    """Print the members of a success: on one line, but indented at a terminal."""
    click.echo(json.dumps({"ok": True, **members}, indent=2 if sys.stdout.isatty() else None))


def print_line(value: object) -> None:
    """Print a value for programs on one line; ASCII only, so that nothing in it can act on a terminal."""
    click.echo(json.dumps(value))


def json_option(command: Command) -> Command:
    """The option `--json`, passed as `as_json`; before or after a subcommand."""
    return click.option(
        "--json", "as_json", is_flag=True, callback=_remember, help="Print JSON for programs."
    )(command)


def _remember(ctx: click.Context, _: click.Parameter, is_json: bool) -> bool:
    ctx.meta[_JSON] = bool(ctx.meta.get(_JSON)) or is_json
    return bool(ctx.meta[_JSON])


def is_json() -> bool:
    """Whether the running verb was called with `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_JSON))


def confirm(question: str, change: str, *, step: str = "repeat it with --yes", piped: bool = False) -> bool:
    """The answer of the person at the terminal.

    Args:
        question: what is asked.
        change: what needs the answer, as the beginning of a sentence.
        step: what to do where nobody can be asked.
        piped: whether the answer may also come from a pipe.

    Raises:
        Failure: `not_confirmed`, with `--json` or without a terminal, because nobody can be asked, or where
            the pipe has no answer.
    """
    _require_person(change, step, piped=piped)
    try:
        return click.confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo()  # ends the line of the question
        raise Failure(f"{change}, and nobody answered", step, reason="not_confirmed") from None


_LONGEST_PROMPT: Final = 76
"""A prompt is not wrapped: it fits into a terminal of 80 columns with the letter that is typed."""


def choose(
    question: str, answers: Mapping[str, str], change: str, *, step: str = "repeat it with --yes"
) -> str:
    """The letter that the person at the terminal chose; the last one if nothing is typed.

    Args:
        question: what is asked.
        answers: letters, with what each of them means.
        change, step: as for `confirm`, which raises the same.
    """
    _require_person(change, step, piped=False)
    *_, last = answers
    meanings = [f"{letter} = {text}" for letter, text in answers.items()]
    prompt = f"{question} ({', '.join(meanings)})"
    if len(prompt) > _LONGEST_PROMPT:
        say(*(f"  {meaning}" for meaning in meanings))
        prompt = f"{question} ({', '.join(answers)})"
    letters = click.Choice(list(answers), case_sensitive=False)
    letter_chosen: str = click.prompt(
        prompt, type=letters, default=last, show_default=False, show_choices=False
    )
    return letter_chosen


def _require_person(change: str, step: str, *, piped: bool) -> None:
    if is_json() or not (piped or sys.stdin.isatty()):
        where = "with --json nothing is asked" if is_json() else "there is no terminal to ask at"
        raise Failure(f"{change}, and {where}", step, reason="not_confirmed")
