"""A project in one of several languages that others edit on disk, and the truth about it after each edit."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Language:
    """How the project's files are written in one language.

    Attributes:
        suffix: of source files.
        api: the name and text of the file that defines `target`; its argument says whether `value` is a number.
        position: where `target` is defined, as LSP position.
        member: a file that uses `target` so often, with a mistake or without.
        dependent: a file that is right exactly if `value` is a number.
        configured: a file that is right exactly if the configuration is the loose one.
        configuration: name and text of the project file; arguments: whether it is the loose one, and all sources.
        references_per_file: how many references a file has beside the uses, e.g. its import.
    """

    suffix: str
    api: Callable[[bool], str]
    api_name: str
    position: tuple[int, int]
    member: Callable[[str, int, bool], str]
    dependent: str
    configured: str
    configuration: Callable[[bool, Path, list[str]], str]
    configuration_name: str
    references_per_file: int
    is_forgiving: bool = False
    """Whether the loose configuration allows every mistake."""
    listing_name: str = ""
    """A file that names all sources, such as the root of a Rust crate."""
    listing: Callable[[list[str]], str] = "".join
    """Its text, of the names of the sources."""


def _python(name: str, uses: int, is_broken: bool) -> str:
    lines = ["from api import target", *(f"print(target({number}))" for number in range(uses))]
    return "\n".join([*lines, *(["import os", 'mistake: int = "text"'] if is_broken else [])]) + "\n"


PYTHON = Language(
    ".py",
    lambda number: (
        f"def target(x: int) -> int:\n    return x\n\n\nvalue: {'int = 1' if number else 'str = str()'}\n"
    ),
    "api.py",
    (0, 5),
    _python,
    "from api import value\n\nneeded: int = value\n",
    'import os\n\nconfigured: int = "text"\n',
    lambda loose, root, names: (
        '[tool.ty.rules]\ninvalid-assignment = "ignore"\n[tool.basedpyright]\nreportAssignmentType = false\n'
        '[tool.ruff.lint]\nignore = ["F401"]\n'
        if loose
        else '[tool.basedpyright]\nreportAssignmentType = "error"\n'
    ),
    "pyproject.toml",
    1,
    is_forgiving=True,
)
TYPESCRIPT = Language(
    ".ts",
    lambda number: (
        "export function target(x: number): number { return x; }\n"
        f"export const value: {'number = 1' if number else 'string = String()'};\n"
    ),
    "api.ts",
    (0, 18),
    lambda name, uses, is_broken: (
        'import { target } from "./api";\nexport let sum = 0;\n'
        + "".join(f"sum += target({number});\n" for number in range(uses))
        + ('export const mistake: number = "text";\n' if is_broken else "")
    ),
    'import { value } from "./api";\nexport const needed: number = value;\n',
    "export function configured(x) { return x; }\n",
    lambda loose, root, names: json.dumps(
        {"compilerOptions": {"strict": not loose, "module": "esnext", "moduleResolution": "bundler", "target": "es2020",
                             "noEmit": True}, "include": ["**/*.ts"]}
    ),
    "tsconfig.json",
    1,
)  # fmt: skip


def _commands(loose: bool, root: Path, names: list[str]) -> str:
    option = "" if loose else "-DSTRICT "
    return json.dumps(
        [
            {
                "directory": str(root),
                "file": str(root / name),
                "command": f"c++ -std=c++17 {option}-c {root / name}",
            }
            for name in names
            if name.endswith(".cpp")
        ]
    )


CPP = Language(
    ".cpp",
    lambda number: (
        "#pragma once\nint target(int x);\nstruct text { int a; };\n"
        f"using value_type = {'int' if number else 'text'};\n"
    ),
    "api.h",
    (1, 4),
    lambda name, uses, is_broken: (
        f'#include "api.h"\nint use_{name}() {{\n  int sum = 0;\n'
        + "".join(f"  sum += target({number});\n" for number in range(uses))
        + "  return sum;\n}\n"
        + (f'static int mistake_{name} = "text";\n' if is_broken else "")
    ),
    '#include "api.h"\nint needed = value_type{};\n',
    '#ifdef STRICT\nint configured = "text";\n#endif\n',
    _commands,
    "compile_commands.json",
    0,
)

GO = Language(
    ".go",
    lambda number: (
        "package main\n\nfunc target(x int) int { return x }\n\n"
        f"var value {'int' if number else 'string'}\n"
    ),
    "api.go",
    (2, 5),
    lambda name, uses, is_broken: (
        f"package main\n\nfunc use_{name}() int {{\n\tsum := 0\n"
        + "".join(f"\tsum += target({number})\n" for number in range(uses))
        + "\treturn sum\n}\n"
        + (f'\nvar mistake_{name} int = "text"\n' if is_broken else "")
    ),
    "package main\n\nvar needed int = value\n",
    "package main\n\nfunc configured[T any](x T) {}\n",
    # type parameters are of version 1.18
    lambda loose, root, names: f"module sample\n\ngo {'1.21' if loose else '1.17'}\n",
    "go.mod",
    0,
)
RUST = Language(
    ".rs",
    lambda number: (
        f"pub fn target(x: i32) -> i32 {{ x }}\npub const VALUE: {'i32 = 1' if number else 'bool = true'};\n"
    ),
    "api.rs",
    (0, 7),
    lambda name, uses, is_broken: (
        f"use crate::api::target;\npub fn use_{name}() -> i32 {{\n    let mut sum = 0;\n"
        + "".join(f"    sum += target({number});\n" for number in range(uses))
        + "    sum\n}\n"
        + (f"pub fn mistake_{name}() -> i32 {{ true }}\n" if is_broken else "")
    ),
    "pub fn needed() -> i32 { crate::api::VALUE }\n",
    '#[cfg(feature = "strict")]\npub fn configured() -> i32 { true }\n',
    lambda loose, root, names: (
        '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
        "[features]\nstrict = []\n" + ("" if loose else 'default = ["strict"]\n')
    ),
    "Cargo.toml",
    1,
    listing_name="lib.rs",
    listing=lambda names: "".join(f"pub mod {name.partition('.')[0]};\n" for name in names),
)


class EditedProject:
    """The project on disk, and what is true about it.

    Attributes:
        uses: how often each member file uses `target`.
        broken: the member files with a mistake.
    """

    def __init__(self, root: Path, language: Language, size: int, seed: int) -> None:
        self.root = root
        self.language = language
        self.uses: dict[str, int] = {}
        self.broken: set[str] = set()
        self.is_number = True
        self.is_loose = False
        self._chance = random.Random(seed)
        self._made = 0
        root.mkdir(parents=True, exist_ok=True)
        (root / language.api_name).write_text(language.api(True))
        (root / self.dependent).write_text(language.dependent)
        (root / self.configured).write_text(language.configured)
        for _ in range(size):
            self._write(self._new_name(), 1)
        self._configure()

    @property
    def dependent(self) -> str:
        """The name of the file whose correctness depends on another file."""
        return f"dependent{self.language.suffix}"

    @property
    def configured(self) -> str:
        """The name of the file whose correctness depends on the configuration."""
        return f"configured{self.language.suffix}"

    @property
    def references(self) -> int:
        """How many references `target` has, beside its definition."""
        return sum(self.uses.values()) + self.language.references_per_file * len(self.uses)

    def is_right(self, name: str) -> bool:
        """Whether a file has no mistake."""
        if self.is_loose and self.language.is_forgiving:
            return True
        if name == self.dependent:
            return self.is_number
        if name == self.configured:
            return self.is_loose
        return name not in self.broken

    def edit(self, kind: str) -> str:
        """Do one edit; returns the name of a file that it concerned, which exists."""
        name = self._chance.choice(sorted(self.uses))
        done: str = getattr(self, f"_{kind}")(name)
        return done

    def _add(self, name: str) -> str:
        return self._write(name, self.uses[name] + 1)

    def _remove(self, name: str) -> str:
        return self._write(name, 0)

    def _create(self, name: str) -> str:
        return self._write(self._new_name(), 2)

    def _delete(self, name: str) -> str:
        (self.root / name).unlink()
        del self.uses[name]
        self.broken.discard(name)
        self._list()
        return self._chance.choice(sorted(self.uses))

    def _rename(self, name: str) -> str:
        new = self._new_name()
        (self.root / name).rename(self.root / new)
        self.uses[new] = self.uses.pop(name)
        if name in self.broken:
            self.broken.discard(name)
            self.broken.add(new)
        self._list()
        return new

    def _break(self, name: str) -> str:
        self.broken.add(name)
        return self._write(name, self.uses[name])

    def _fix(self, name: str) -> str:
        name = min(self.broken, default=name)
        self.broken.discard(name)
        return self._write(name, self.uses[name])

    def _keep_time(self, name: str) -> str:
        before = (self.root / name).stat()
        self._write(name, self.uses[name] + 1)
        os.utime(self.root / name, ns=(before.st_atime_ns, before.st_mtime_ns))
        return name

    def _dependency(self, name: str) -> str:
        self.is_number = not self.is_number
        (self.root / self.language.api_name).write_text(self.language.api(self.is_number))
        return self.dependent

    def _configuration(self, name: str) -> str:
        self.is_loose = not self.is_loose
        self._configure()
        return self.configured

    def _checkout(self, name: str) -> str:
        """Many files at once, as another branch has them."""
        for one in self._chance.sample(sorted(self.uses), len(self.uses) // 2):
            self._write(one, self._chance.randrange(4))
        self._create(name)
        self._delete(name)
        return self._chance.choice(sorted(self.uses))

    def _new_name(self) -> str:
        self._made += 1
        return f"member{self._made}{self.language.suffix}"

    def _write(self, name: str, uses: int) -> str:
        text = self.language.member(name.partition(".")[0], uses, name in self.broken)
        (self.root / name).write_text(text)
        is_new = name not in self.uses
        self.uses[name] = uses
        if is_new:
            self._list()
        return name

    def _list(self) -> None:
        """Write the file that names all sources, if the language has one."""
        if self.language.listing_name:
            names = [self.language.api_name, self.dependent, self.configured, *self.uses]
            (self.root / self.language.listing_name).write_text(self.language.listing(names))

    def _configure(self) -> None:
        names = [*self.uses, self.dependent, self.configured]
        text = self.language.configuration(self.is_loose, self.root, names)
        (self.root / self.language.configuration_name).write_text(text)
