"""Parses shell text with the Bash grammar, and finds the programs that it would start, also behind others."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


_SCRIPT_OPTIONS: Final[Mapping[str, str]] = {
    "python": "c", "pypy": "c", "node": "ep", "nodejs": "ep", "bun": "ep", "deno": "", "perl": "eE",
    "ruby": "e", "php": "rBRE", "lua": "e", "luajit": "e", "Rscript": "e", "R": "e", "julia": "eE",
    "osascript": "e", "groovy": "e", "elixir": "e", "tclsh": "", "pwsh": "c", "powershell": "c",
}  # fmt: skip
"""Interpreters, without the number of a version -> letters of the options that code follows."""
_LONG_OPTIONS: Final = frozenset(
    {
        "eval", "--eval", "--print", "--run", "--process-code", "-eval", "-command", "-encodedcommand", "-ec",
    }
)  # fmt: skip
_MODULE: Final = "-m"
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_VERSION: Final = re.compile(r"[0-9.]+\Z")
_AWK_STARTS: Final = re.compile(r"\bsystem\b|\bgetline\b|\|")


def interpreter(name: str) -> str:
    """The name of an interpreter without its version, such as `python` of `python3.12`; empty for others."""
    plain = _VERSION.sub("", name)
    return plain if plain in _SCRIPT_OPTIONS or plain in _AWKS else ""


def runs_code(name: str, words: Sequence[str | None]) -> bool:
    """Whether an interpreter would run code that is no file.

    Args:
        name: as `interpreter` gives it.
        words: its arguments; None for one that only the shell knows.
    """
    if name in _AWKS:
        return any(word is None or _AWK_STARTS.search(word) is not None for word in words)
    letters = _SCRIPT_OPTIONS[name]
    for word in words:
        if word is None or word == "-":
            return True
        if word.lower() in _LONG_OPTIONS or word.partition("=")[0].lower() in _LONG_OPTIONS:
            return True
        if not word.startswith("-"):
            return False  # a script
        if not word.startswith("--") and any(letter in word[1:] for letter in letters):
            return True
        if word.startswith(_MODULE) and name in {"python", "pypy"}:
            return False
        if word in {"--version", "-V", "-v", "--help", "-h"}:
            return False
    return True  # it reads the code from its input


MAX_BYTES: Final = 64 * 1024
"""Longer texts count as not parsable."""
_UNDECIDED: Final = re.compile(r"(?<!\\)[*?\[{~]")
"""Unquoted characters by which a word becomes other words."""
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_SILENT: Final = re.compile(r"(?:\s|!|nohup|command|timeout\s+\S+)*(?::|true)?\s*")
_ASSIGNS: Final = frozenset({"variable_assignment", "for_statement"})
"""Both begin with the name of a variable, the second behind a word."""
_SIMPLE_ANSI: Final = re.compile(r"\A[^\\]*\Z", re.DOTALL)


class Word(NamedTuple):
    """A word: after quotes are removed, or None if only the shell knows it; and as it is written."""

    value: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command: its words after quotes are removed. None stands for a word that only the shell knows."""

    typed: tuple[Word, ...]

    @property
    def words(self) -> tuple[str | None, ...]:
        """The words alone."""
        return tuple(word.value for word in self.typed)


class Redirect(NamedTuple):
    """A redirection to or from a place. `is_empty`: nothing is printed to it; it only empties a file."""

    writes: bool
    is_empty: bool
    target: Word


@dataclass(frozen=True, slots=True)
class Parsed:
    """All simple commands of a text, nested ones too. `is_whole`: the text has no syntax errors.

    `assignments` are words `NAME=value`, wherever they stand.
    """

    commands: tuple[SimpleCommand, ...]
    is_whole: bool
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Word, ...] = ()


def parse(text: str) -> Parsed:
    """Parse a shell text; never raises."""
    if "\0" in text:
        return Parsed((), is_whole=False)
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > MAX_BYTES:
        return Parsed((), is_whole=False)
    root = _parser().parse(encoded).root_node
    nodes = tuple(_walk(root))
    return Parsed(
        tuple(_command(node) for node in nodes if node.type == "command"),
        not root.has_error,
        tuple(_redirect(node) for node in nodes if node.type == "file_redirect"),
        tuple(
            Word(None, _text(node).removeprefix("for ").lstrip()) for node in nodes if node.type in _ASSIGNS
        ),
    )


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _walk(root: Node) -> Iterator[Node]:
    """All nodes, without recursion: a text may nest as deep as it likes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _command(node: Node) -> SimpleCommand:
    words: list[Word] = []
    for child in node.named_children:
        if child.type == "command_name":
            words.append(_typed(child.named_children[0] if child.named_children else child))
        elif child.type not in {"variable_assignment", "file_redirect", "herestring_redirect", "comment"}:
            words.append(_typed(child))
    return SimpleCommand(tuple(words))


def _redirect(node: Node) -> Redirect:
    place = node.child_by_field_name("destination")
    writes = any(not child.is_named and ">" in _text(child) for child in node.children)
    return Redirect(writes, _prints_nothing(node.parent), Word(None, "") if place is None else _typed(place))


def _prints_nothing(statement: Node | None) -> bool:
    """Whether a redirected statement is nothing, or `:`, so that it only empties what it is redirected to."""
    if statement is None or statement.type not in {"redirected_statement", "command_substitution"}:
        return False
    body = statement.child_by_field_name("body")
    last = "" if body is None else re.split(r"[;&|\n]", _text(body).rstrip("; \n"))[-1]
    return _SILENT.fullmatch(last) is not None


def _typed(node: Node) -> Word:
    return Word(_word(node), _text(node))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _word(node: Node) -> str | None:
    """The text of a word if it is the same whatever the shell knows; else None."""
    text = _text(node)
    match node.type:
        case "word" | "number":
            return None if _UNDECIDED.search(text) else _ESCAPED.sub(_unescaped, text)
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            content = text[2:-1]
            return content if _SIMPLE_ANSI.match(content) else None
        case "string":
            return _quoted(node, text)
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part is not None)
    return None


def _quoted(node: Node, text: str) -> str | None:
    if any(child.type != "string_content" for child in node.named_children):
        return None
    return _ESCAPED_IN_QUOTES.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


MAX_DEPTH: Final = 8
"""Shells within shells that are followed; deeper ones count as undecidable."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "tcsh", "csh"})
MAX_STEPS: Final = 20_000
"""Words that are looked at; a text that needs more counts as undecidable."""
FIND_DELETE: Final = "find -delete"
"""Stands among the names for a `find` that deletes what it finds itself."""
_STEP_CHARACTERS: Final = 16
"""Characters to parse that count as one word, as each text may be reached in many ways."""
_EVALUATE: Final = frozenset({"eval", "trap", "source", "."})
_DIRECT: Final = frozenset(
    {
        "env", "xargs", "nohup", "nice", "ionice", "setsid", "timeout", "time", "command", "builtin",
        "exec", "coproc", "busybox", "toybox", "stdbuf", "sudo", "doas", "pkexec", "run0", "watch", "strace",
        "ltrace", "systemd-run", "unbuffer", "fakeroot", "entr", "caffeinate", "find",
    }
)  # fmt: skip
"""Programs that start what their arguments name: behind options, the first other word is the program."""
_LATER: Final = frozenset(
    {
        "su", "runuser", "ssh", "chroot", "unshare", "nsenter", "script", "flock", "tmux", "screen", "expect",
        "taskset", "numactl", "chrt", "firejail", "bwrap", "docker", "podman", "setarch", "setpriv", "capsh",
        "start-stop-daemon", "gdb", "at", "batch", "parallel",
    }
)  # fmt: skip
"""Programs that start what their arguments name, behind other words: any word may be the program."""
_RUNNERS: Final = frozenset(
    {
        "uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "npx", "npm", "pnpm", "yarn", "bunx", "conda",
        "mamba", "micromamba", "mise", "direnv", "nix", "nix-shell",
    }
)  # fmt: skip
"""Tools of developers that start programs as well as much else."""
_CODE_WORD: Final = re.compile(r"[\w.+-]+")
_PASSED_OVER: Final = re.compile(r"\A(?:[A-Za-z_]\w*\+?=.*|[0-9.]+[smhdkKMG]?|\{\}|[;+:]|--?)\Z", re.DOTALL)
_SEPARATES: Final = re.compile(r"[\s;&|<>()`$]")
_STARTS_PROGRAM: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-c", "--command", "--"})


@dataclass(frozen=True, slots=True)
class Programs:
    """What a text would start.

    Attributes:
        names: the file names of the programs, without folders.
        is_whole: whether the text is valid shell.
        is_decided: whether all programs are known; False where a name comes from a variable, from another
            command's output or from the input of a shell.
        runs_code: the interpreter that gets code in its arguments or by its input, such as `python` in
            `python -c x`; empty if there is none. The words of such code are among the names.
    """

    names: frozenset[str]
    is_whole: bool
    is_decided: bool
    runs_code: str = ""


def programs_in(text: str) -> Programs:
    """The programs that a shell text would start."""
    search = _Search()
    search.text(text, 0)
    return Programs(frozenset(search.names), search.is_whole, search.is_decided, search.runs_code)


class _Search:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_whole = True
        self.is_decided = True
        self.runs_code = ""
        self._steps = 0

    def text(self, text: str, depth: int) -> None:
        """Search a whole shell text."""
        if depth > MAX_DEPTH or self._is_exhausted(len(text) // _STEP_CHARACTERS):
            self.is_decided = False
            return
        joined = text.replace("\\\n", "")
        # both: the shell joins these lines, except behind a comment
        for form in {text, joined}:
            parsed = parse(form)
            self.is_whole = self.is_whole and parsed.is_whole
            for command in parsed.commands:
                self._command(command, depth)

    def _command(self, command: SimpleCommand, depth: int) -> None:
        if command.words:
            self._words(command.words, depth)

    def _words(self, words: Sequence[str | None], depth: int) -> None:
        """Search one command, given its words."""
        program = words[0]
        if not program:
            self.is_decided = False
            self._arguments(words[1:], depth)
            return
        name = program.rpartition("/")[2]
        self.names.add(name)
        if name == "find" and "-delete" in words:
            self.names.add(FIND_DELETE)
        if name in SHELLS:
            self._shell(words[1:], depth)
        elif name in _EVALUATE:
            self._arguments(words[1:], depth)
            self.is_decided = self.is_decided and None not in words
        elif name == "alias":
            self._aliases(words[1:], depth)
        elif name in _DIRECT:
            self._wrapped(name, words[1:], depth)
        elif name in _LATER:
            self._anywhere(words[1:], depth)
        elif name in _RUNNERS:
            self._anywhere([word for word in words[1:] if word is not None], depth)
        elif plain := interpreter(name):
            self._interpreter(plain, words[1:])

    def _aliases(self, words: Sequence[str | None], depth: int) -> None:
        """A shell puts the text of an alias in the place of its name, in later lines."""
        for word in words:
            if word is None:
                self.is_decided = False
            elif "=" in word:
                self.text(word.partition("=")[2], depth + 1)

    def _shell(self, words: Sequence[str | None], depth: int) -> None:
        """A shell runs the text in its arguments, a script, or what it reads."""
        operands = [word for word in words if word is None or not word.startswith(("-", "+"))]
        reads = not operands or any(word == "-s" for word in words)
        if None in words or reads:  # a shell that reads runs a text that nobody sees here
            self.is_decided = False
        self._arguments(words, depth)

    def _interpreter(self, name: str, words: Sequence[str | None]) -> None:
        """An interpreter runs a script, or code that nobody looks into."""
        if not runs_code(name, words):
            return
        self.runs_code = self.runs_code or name
        for word in words:
            if word is not None and not self._is_exhausted(len(word) // _STEP_CHARACTERS):
                self.names.update(_CODE_WORD.findall(word))

    def _wrapped(self, name: str, words: Sequence[str | None], depth: int) -> None:
        """A program that starts another: any argument may name it, until one surely does."""
        after_option, looking = False, name != "find"
        for position, word in enumerate(words):
            if self._is_exhausted():
                return
            if not looking:
                looking = word in _STARTS_PROGRAM
                continue
            if word is None:
                self.is_decided = False
            elif word.startswith("-") or _PASSED_OVER.match(word):
                self._value_of_option(word, depth)
                after_option = word.startswith("-") and word not in _STARTS_PROGRAM
                continue
            else:
                self._argument(word, depth)
                self._nested(words[position:], depth + 1)
                if not after_option and name != "find":
                    return
                looking = name != "find"
            after_option = False

    def _anywhere(self, words: Sequence[str | None], depth: int) -> None:
        """A program that starts another, at a place in its arguments that depends on it."""
        if None in words or depth >= MAX_DEPTH:
            self.is_decided = False
        for position, word in enumerate(words):
            if self._is_exhausted():
                return
            if word is not None and word.startswith("-"):
                self._value_of_option(word, depth)
            elif word is not None and depth < MAX_DEPTH:
                self._argument(word, depth)
                self._nested(words[position:], MAX_DEPTH)

    def _is_exhausted(self, steps: int = 1) -> bool:
        self._steps += steps
        if self._steps > MAX_STEPS:
            self.is_decided = False
        return self._steps > MAX_STEPS

    def _nested(self, words: Sequence[str | None], depth: int) -> None:
        if depth > MAX_DEPTH:
            self.is_decided = False
        else:
            self._words(words, depth)

    def _arguments(self, words: Sequence[str | None], depth: int) -> None:
        for word in words:
            if self._is_exhausted():
                return
            if word is not None:
                self._argument(word, depth)

    def _value_of_option(self, word: str, depth: int) -> None:
        """What is written to an option itself may be a text for a shell: `-Stext`, `--split-string=text`."""
        value = word.partition("=")[2] if word.startswith("--") else word[2:]
        if word.startswith("-") and value:
            self._argument(value, depth)

    def _argument(self, word: str, depth: int) -> None:
        """An argument that may be a program, or a text for a shell."""
        if _SEPARATES.search(word):
            self.text(word, depth + 1)
        elif word and not word.startswith("-"):
            self.names.add(word.rpartition("/")[2])
