"""Finds the programs that a shell text would start, also behind paths, wrappers and other shells. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.agent.shell.interpreters import interpreter, runs_code
from lm_tools_bridge.agent.shell.syntax import SimpleCommand, parse

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
