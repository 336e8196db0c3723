"""Tells why a shell command is not one that people run all day without a second thought. Pure.

An allow-list: harm has more forms than a list of it could have. What is not known to be harmless is asked for
with no as the default, and so is what writes outside the project, discards work, sends files away, or changes
what later programs start with.
"""

from __future__ import annotations

import os.path
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from lm_tools_bridge.agent.guard.everyday_programs import (
    BUILDS,
    FORBIDDEN,
    GIT_FORBIDDEN,
    GIT_NEEDED,
    HARMFUL_TARGET,
    INTERPRETERS,
    READS,
    RUNNERS,
    SAFE_BRANCHES,
    SECRET_PLACES,
    SHELLS,
    STANDARD_MODULES,
    SUBCOMMANDS,
    WRAPPERS,
    WRITES,
)
from lm_tools_bridge.agent.shell_commands import Redirect, Word, parse

MAX_DEPTH: Final = 6
"""Commands within commands that are followed."""
_OUTPUTS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})
_SYSTEM_FOLDERS: Final = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
_HIDDEN_FILES: Final = frozenset({".", "..", ".gitignore", ".dockerignore", ".editorconfig", ".gitkeep"})
"""Other names that begin with a dot are settings of programs, which later runs act upon."""
_GLOB: Final = re.compile(r"[\w./*?\[\],{}@%+:-]+")
_STARTS_WITH: Final = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PYTHON|NODE|PERL|RUBY|JAVA|JDK|MAVEN|GRADLE|NPM|YARN|PIP|UV|CARGO|RUSTC|CMAKE|SSH|SUDO|XDG|"
    r"LMTB|DOCKER|KUBE|MALLOC|GCONV|LESS|TERMINFO|NIX|ZDOT|HIST)_?.*|"
    r".*(?:PATH|HOME|PAGER|EDITOR|BROWSER|SHELL|PROXY|PRELOAD|COMMAND|OPTS?|OPTIONS|ADDOPTS|FLAGS|WRAPPER|STARTUP|VISUAL|RC)|"
    r"ENV|IFS|PS[0-4]|PROMPT.*|CC|CXX|LD|AR|TMPDIR|DISPLAY",
    re.IGNORECASE,
)  # fmt: skip
"""Names of variables by which programs choose what they load, start or talk to."""
_HARMLESS_VARIABLES: Final = re.compile(
    r"(?:PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8)|NODE_ENV|RUSTC?_BACKTRACE|CARGO_TERM_COLOR|GIT_TERMINAL_PROMPT)=.*|"
    r"(?:GIT_|MAN)?PAGER=(?:cat|less|)|CC=(?:gcc|clang|cc)|CXX=(?:g\+\+|clang\+\+|c\+\+)"
)  # fmt: skip
_SED: Final = re.compile(
    r"(?:(?:\d+|\$|/[^/]*/)(?:,(?:\d+|\$|/[^/]*/))?)?!?\s*"
    r"(?:[pdqQ=]|s(?P<by>[/|#,@!:])(?:(?!(?P=by)).)*(?P=by)(?:(?!(?P=by)).)*(?P=by)[gIip0-9]*)"
)
_CURL_FLAG: Final = re.compile(
    r"-[sSLfIivkgG#46]+|--(?:silent|show-error|location|fail|head|include|verbose|insecure|get|compressed|http[12.]+)"
)
_CURL_VALUE: Final = {
    "-H": r"(?!@).*", "--header": r"(?!@).*", "-A": ".*", "-m": r"\d+", "--max-time": r"\d+",
    "-X": "GET|HEAD|OPTIONS",
    "--request": "GET|HEAD|OPTIONS", "--connect-timeout": r"\d+", "--retry": r"\d+", "-w": "(?!@).*",
}  # fmt: skip
_ADDRESS: Final = re.compile(r"(?:https?://)?[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?(?:[/?#][^\s]*)?")
_VALUE_OPTIONS: Final = frozenset({"-n", "-I", "-P", "-L", "-k", "-s", "-d", "-u", "-c"})


def objection(text: str, project: str = "", depth: int = 0) -> str:
    """Why a command is not an everyday one; empty if it is.

    Args:
        text: the command.
        project: the absolute folder in which it would run; empty if that is not known.
        depth: how many commands it stands in.
    """
    if depth > MAX_DEPTH:
        return "the command holds too many others"
    if SECRET_PLACES.search(text):
        return "the command names a place of secrets"
    return next(filter(None, _objections(text, _Judge(project, depth))), "")


def _objections(text: str, judge: _Judge) -> Iterator[str]:
    parsed = parse(text)
    for assignment in parsed.assignments:
        yield judge.assignment(assignment)
    for redirect in parsed.redirects:
        yield judge.redirect(redirect)
    for command in parsed.commands:
        yield judge.command(command.typed)


class _Judge:
    """Judges the parts of a command that runs in a project."""

    def __init__(self, project: str, depth: int) -> None:
        self._project = project
        self._depth = depth

    def assignment(self, word: Word) -> str:
        """Why setting a variable may change which program runs, or what it does."""
        name = re.split(r"[=+\s\[]", word.text, maxsplit=1)[0]
        if _HARMLESS_VARIABLES.fullmatch(word.text) or not _STARTS_WITH.fullmatch(name):
            return ""
        return f"the command sets {name}"

    def redirect(self, redirect: Redirect) -> str:
        """Why what a command prints must not go there."""
        if not redirect.writes or redirect.target.text.isdecimal() or redirect.target.value in _OUTPUTS:
            return ""
        if redirect.is_empty:
            return f"the command empties {redirect.target.text}"
        return self._written(redirect.target)

    def command(self, words: Sequence[Word]) -> str:
        """Why a program with its arguments is not an everyday one."""
        if not words or not words[0].value:
            return "the command cannot be told before it runs"
        folder, _, name = words[0].value.rpartition("/")
        arguments = words[1:]
        if folder and folder not in _SYSTEM_FOLDERS:
            if not self._is_inside(words[0]):
                return f"{name} is not a program of the project"
            if self._rule_of(name) is None:
                return ""  # a script of the project, which is not looked into
        pattern = FORBIDDEN.get(name)
        for argument in arguments if pattern else ():
            if pattern and pattern.fullmatch(argument.text.strip("'\"")):
                return f"{name} {argument.text} is not known to be harmless"
        rule = self._rule_of(name)
        return f"{name} is not known to be harmless" if rule is None else rule(self, name, arguments)

    def _rule_of(self, name: str) -> Rule | None:
        """What judges the arguments of a program; None for a program that is not known."""
        kinds: Sequence[tuple[Container[str], Rule]] = (
            (SHELLS, _Judge._shell), (WRAPPERS, _Judge._wrapped), (RUNNERS, _Judge._environment),
            (SUBCOMMANDS, _Judge._subcommand), (WRITES, _Judge._write), (BUILDS, _Judge._build),
            (READS, _Judge._read),
        )  # fmt: skip
        if name in _OWN_RULES:
            return _OWN_RULES[name]
        if name.rstrip("0123456789.") in INTERPRETERS:
            return _Judge._interpreter
        return next((rule for names, rule in kinds if name in names), None)

    # -- files ----------------------------------------------------------------------------------------------

    def _is_inside(self, word: Word) -> bool:
        """Whether a path surely leads into the project."""
        path = word.value
        if path is None:
            if not _GLOB.fullmatch(word.text):
                return False
            path = word.text
        if path.startswith("~"):
            return False
        clean = os.path.normpath(path)
        if clean.startswith("/"):
            return bool(self._project) and f"{clean}/".startswith(f"{self._project.rstrip('/')}/")
        return clean.split("/")[0] != ".."

    def _written(self, word: Word) -> str:
        """Why a path must not be written without a thought."""
        if not self._is_inside(word):
            return f"the command writes outside of the project: {word.text}"
        parts = (word.value or word.text).removeprefix(self._project).split("/")
        hidden = [part for part in parts if part.startswith(".") and part not in _HIDDEN_FILES]
        return f"the command writes settings: {word.text}" if hidden else ""

    def _read(self, name: str, arguments: Sequence[Word]) -> str:
        return ""

    def _write(self, name: str, arguments: Sequence[Word]) -> str:
        for word in arguments:
            if not word.text.startswith("-"):
                if reason := self._written(word):
                    return reason
            elif "/" in word.text or "~" in word.text or "$" in word.text:
                return f"{name} {word.text} is not known to be harmless"
        return ""

    def _copy(self, name: str, arguments: Sequence[Word]) -> str:
        """What is copied may come from anywhere, but not from nowhere: that empties the other file."""
        operands = [word for word in arguments if not word.text.startswith("-")]
        if any(word.text.startswith("/dev/") for word in operands):
            return "the command empties a file"
        options = [word for word in arguments if word.text.startswith("-")]
        names_folder = any(word.text.startswith(("-t", "--target")) for word in options)
        return self._write(name, [*options, *(operands if names_folder else operands[-1:])])

    def _change_folder(self, name: str, arguments: Sequence[Word]) -> str:
        operands = [word for word in arguments if not word.text.startswith("-")] or [Word(None, "~")]
        return "" if all(map(self._is_inside, operands)) else "the command leaves the project's folder"

    def _source(self, name: str, arguments: Sequence[Word]) -> str:
        return (
            ""
            if arguments and not arguments[0].text.startswith("-") and self._is_inside(arguments[0])
            else f"{name} runs a file outside of the project"
        )

    def _look_up(self, name: str, arguments: Sequence[Word]) -> str:
        """A name that is asked for reaches other machines: it must hold nothing of this one."""
        return "" if all(word.value is not None for word in arguments) else f"{name} may send something away"

    def _uniq(self, name: str, arguments: Sequence[Word]) -> str:
        operands = [word for word in arguments if not word.text.startswith("-")]
        return "uniq writes its second file" if len(operands) > 1 else ""

    # -- programs that run others ---------------------------------------------------------------------------

    def _inner(self, words: Sequence[Word]) -> str:
        if self._depth >= MAX_DEPTH:
            return "the command holds too many others"
        return _Judge(self._project, self._depth + 1).command(words)

    def _shell(self, name: str, arguments: Sequence[Word]) -> str:
        options = [word for word in arguments if word.text.startswith("-")]
        operands = [word for word in arguments if not word.text.startswith("-")]
        if not operands or any(not re.fullmatch("-[euxlc]+", word.text) for word in options):
            return f"{name} is not known to be harmless so"
        if any("c" in word.text for word in options):
            text = operands[0].value
            return objection(text, self._project, self._depth + 1) if text else "the command cannot be told"
        return self._source(name, operands)

    def _wrapped(self, name: str, arguments: Sequence[Word]) -> str:
        if name == "command" and arguments and arguments[0].text in {"-v", "-V"}:
            return ""
        words = list(arguments)
        while words and (words[0].text.startswith("-") or (name == "env" and "=" in words[0].text)):
            word = words.pop(0)
            if not word.text.startswith("-"):
                if reason := self.assignment(word):
                    return reason
            elif name == "env" and word.text not in {"-i", "-u", "-0"}:
                return f"env {word.text} is not known to be harmless"
            elif word.text in _VALUE_OPTIONS and name != "time":
                words = words[1:]
        if name == "timeout":
            words = words[1:]
        return self._inner(words) if words else ""

    def _environment(self, name: str, arguments: Sequence[Word]) -> str:
        verb = RUNNERS[name]
        if verb and (not arguments or arguments[0].text != verb):
            return self._subcommand(name, arguments)
        words = arguments[1:] if verb else arguments
        if name == "npm":
            words = words[1:] if words and words[0].text == "--" else words
        if not words or words[0].text.startswith("-"):
            return f"{name} is not known to be harmless so"
        return self._inner(words)

    def _find(self, name: str, arguments: Sequence[Word]) -> str:
        texts = [word.text for word in arguments]
        if any(text.startswith(("-delete", "-fprint", "-fls")) for text in texts):
            return "find writes or removes files"
        for at, text in enumerate(texts):
            if text in {"-exec", "-execdir", "-ok", "-okdir"}:
                end = next(
                    (place for place in range(at, len(texts)) if texts[place].strip("\\'\"") in ";+"), None
                )
                if reason := self._inner(arguments[at + 1 : end]):
                    return reason
        return ""

    # -- programs with a language of their own --------------------------------------------------------------

    def _sed(self, name: str, arguments: Sequence[Word]) -> str:
        operands = [word for word in arguments if not word.text.startswith("-")]
        options = [word.text for word in arguments if word.text.startswith("-")]
        if not all(re.fullmatch(r"-[nEresiz]+(?:\.bak)?", text) for text in options) or not operands:
            return "sed is not known to be harmless so"
        scripts = [following for option, following in pairwise(arguments) if option.text == "-e"] or operands[
            :1
        ]
        for word in scripts:
            text = word.value
            if text is None or not (_SED.fullmatch(text) or all(map(_SED.fullmatch, text.split(";")))):
                return "what sed would do is not known to be harmless"
        in_place = any("i" in text for text in options)
        return self._write(name, [word for word in operands if word not in scripts]) if in_place else ""

    def _awk(self, name: str, arguments: Sequence[Word]) -> str:
        writes = any(re.search(r"print[^}]*>", word.text) for word in arguments)
        return "awk writes files" if writes else ""

    def _interpreter(self, name: str, arguments: Sequence[Word]) -> str:
        """Runs a script of the project; code in arguments is told elsewhere."""
        words = list(arguments)
        while words and words[0].text in {
            "-u",
            "-B",
            "-O",
            "-I",
            "-s",
            "-E",
            "-v",
            "-q",
            "--test",
            "--watch",
            "-jar",
        }:
            words.pop(0)
        if not words or re.fullmatch(r"-V|-v+|--?version|--?help|-h", words[0].text):
            return ""
        if words[0].text == "-m" and name.startswith("python"):
            return self._module(words[1:])
        return self._source(name, words[:1])

    def _module(self, words: Sequence[Word]) -> str:
        name = (words[0].value or "") if words else ""
        if self._rule_of(name) is not None:
            return self._inner(words)
        operands = [word for word in words[1:] if not word.text.startswith("-")]
        if name in {"venv", "json.tool"}:
            return (
                ""
                if all(map(self._is_inside, operands))
                else f"python -m {name} writes outside of the project"
            )
        is_standard = name.partition(".")[0] in sys.stdlib_module_names
        if not name or (is_standard and name not in STANDARD_MODULES) or name in {"twine", "ensurepip"}:
            return f"python -m {name} is not known to be harmless"
        return ""

    def _build(self, name: str, arguments: Sequence[Word]) -> str:
        for word in arguments:
            text = word.text.strip("'\"")
            if re.search(
                r"(?:^|=|^-[oCdBf])(?:/|~|\.\./|\.\.$|\$HOME|\$\{HOME)", text
            ) and not self._is_inside(word):
                return f"{name} may write outside of the project: {text}"
            if HARMFUL_TARGET.fullmatch(text) and "." not in text:
                return f"{name} {text} is not known to be harmless"
            if re.fullmatch(r"[A-Z_]+=.*", text) and (reason := self.assignment(Word(text, text))):
                return reason
        return ""

    def _subcommand(self, name: str, arguments: Sequence[Word]) -> str:
        operands = [word for word in arguments if not word.text.startswith("-")]
        verbs = {" ".join(word.text for word in operands[:length]): length for length in (1, 2)}
        length = next((length for verb, length in verbs.items() if verb in SUBCOMMANDS[name]), 0)
        if not length:
            is_question = bool(arguments) and not operands
            plain = is_question and all(
                re.fullmatch("--?version|-[vV]|--?help|-h", word.text) for word in arguments
            )
            return (
                ""
                if plain
                else f"{name} {' '.join(word.text for word in operands[:2])} is not known to be harmless"
            )
        if reason := self._build(name, operands[length:]):
            return reason
        return self._packages(name, arguments) if operands[0].text in {"install", "i", "ci", "add"} else ""

    def _packages(self, name: str, arguments: Sequence[Word]) -> str:
        """Installing what the project lists is an everyday command, other code is not."""
        file_options, texts = (
            {"-r", "--requirement", "-e", "--editable", "-c"},
            [word.text for word in arguments],
        )
        for before, text in pairwise(texts):
            is_listed = (
                (before in file_options and not re.search("[:@]", text))
                or text.startswith("-")
                or text in {".", ".[dev]", "'.[dev]'"}
            )
            if not is_listed:
                return f"{name} would install {text}"
        return ""

    def _git(self, name: str, arguments: Sequence[Word]) -> str:
        words = list(arguments)
        while words and words[0].text in {"--no-pager", "-P", "--no-optional-locks"}:
            words.pop(0)
        if len(words) > 1 and words[0].text == "-C":
            if not self._is_inside(words[1]):
                return "git works outside of the project"
            words = words[2:]
        verb = words[0].text if words else ""
        if words and words[0].text.startswith("-") and verb != "--version":
            return f"git {verb} is not known to be harmless"
        texts = [word.text.strip("'\"") for word in words[1:]]
        if any("$" in text and not text.startswith(" ") for text in texts if verb in GIT_FORBIDDEN):
            return "the command cannot be told before it runs"
        forbidden, needed = GIT_FORBIDDEN.get(verb), GIT_NEEDED.get(verb)
        bad = next((text for text in texts if forbidden and forbidden.fullmatch(text)), None)
        if bad is not None or (needed and not any(map(needed.fullmatch, texts))):
            return f"git {verb} {bad or ''}".rstrip() + " may discard work or send it elsewhere"
        if verb == "checkout":
            return self._checkout(texts)
        if verb in {"restore", "clean"} and re.search(
            r"(?:^|\s)(?:--worktree|-[a-zA-Z]*[Wf])", " ".join(texts)
        ):
            return f"git {verb} discards work"
        excluded_verbs = {"rm", "am", "gc", "rebase"}
        return (
            ""
            if (verb in SUBCOMMANDS["git"] and verb not in excluded_verbs) or verb == "--version"
            else self._subcommand(name, words)
        )

    def _checkout(self, texts: Sequence[str]) -> str:
        is_new = bool(texts) and texts[0] == "-b" and len(texts) <= 3
        is_branch = len(texts) == 1 and texts[0] in SAFE_BRANCHES
        return "" if is_new or is_branch else "git checkout may discard changes of files"

    # -- programs that speak to other machines --------------------------------------------------------------

    def _curl(self, name: str, arguments: Sequence[Word]) -> str:
        """Fetches of plain addresses only: nothing of the machine is in them."""
        words = list(arguments)
        while words:
            word = words.pop(0)
            text = word.value or ""
            pattern = _CURL_VALUE.get(text)
            if text in {"-o", "--output"} and words:
                if (target := words.pop(0)).value not in _OUTPUTS and (reason := self._written(target)):
                    return reason
            elif pattern is not None and words:
                if not re.fullmatch(pattern, words.pop(0).value or "@"):
                    return f"{name} may send something away"
            elif not (_CURL_FLAG.fullmatch(text) or text == "-O" or _ADDRESS.fullmatch(text)):
                return f"{name} may send something away"
        return ""

    def _wget(self, name: str, arguments: Sequence[Word]) -> str:
        words = list(arguments)
        while words:
            word = words.pop(0)
            text = word.value or ""
            if text == "-O" and words:
                if (target := words.pop(0)).value not in _OUTPUTS and (reason := self._written(target)):
                    return reason
            elif not (re.fullmatch("-q|-nv|-c|--spider|-S|--quiet", text) or _ADDRESS.fullmatch(text)):
                return f"{name} may send something away"
        return ""


Rule = Callable[[_Judge, str, Sequence[Word]], str]
_OWN_RULES: Final[Mapping[str, Rule]] = {
    "cp": _Judge._copy, "cd": _Judge._change_folder, "pushd": _Judge._change_folder, "source": _Judge._source,
    ".": _Judge._source, "find": _Judge._find, "sed": _Judge._sed, "awk": _Judge._awk, "gawk": _Judge._awk,
    "mawk": _Judge._awk, "git": _Judge._git, "curl": _Judge._curl, "wget": _Judge._wget, "uniq": _Judge._uniq,
    "ping": _Judge._look_up, "dig": _Judge._look_up, "host": _Judge._look_up, "nslookup": _Judge._look_up,
}  # fmt: skip
"""Programs that are judged in a way of their own."""
