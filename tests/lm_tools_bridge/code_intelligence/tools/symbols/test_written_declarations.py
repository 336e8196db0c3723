"""Declarations that servers leave out: macros, attributes that methods set, assigned properties."""

from __future__ import annotations

import re

import pytest

from lm_tools_bridge.code_intelligence.tools.symbols.written_declarations import (
    WrittenDeclaration,
    declaring_pattern,
    written_declarations,
)

HEADER = """\
#ifndef SERVER_H
#define SERVER_H

#ifndef DEFAULT_PORT
#define DEFAULT_PORT 6379
#endif
#  define OBJ_ENCODING_LISTPACK 11 /* a listpack */
#define UNUSED(V) ((void) V)
#define serverAssert(_e) (likely(_e)?(void)0 : \\
    (_fail(#_e), \\
     abort()))
int define_nothing; // #define not a macro
#undef UNUSED
#endif
"""
PYTHON = """\
class App:
    name: str

    def __init__(self, x):
        # self.commented = 1
        self.extensions: dict[str, int] = {}
        self.width, self.height = 1, 2
        self.width = 3
        if self.name == "x" or call(self.other, y=1):
            self.counter += 1

    class Inner:
        def set(self):
            self.deep = None


class Second(App):
    async def run(self):
        first = self.extensions = {}


def outside(self):
    self.nothing = 1
"""
SCRIPT = """\
var app = exports = module.exports = {};
exports.etag = createETag(false);
exports.compileETag = function(val) {
  val.deep.target = 1;
};
module.exports.parse = async (text) => text;
app.handle = function handle(req, res) {
  this.settings = {};
};
res.set = res.header = function header(field) {};
Queue.prototype.push = function (x) { this.items = [x]; };
lib.Stack.prototype.size = 0;
app.enabled = true;
if (app.name === 'x' || a.b == c) {}
// exports.commented = function () {}
function Server(port) {
  this.port = port;
}
"""


def paths(suffix: str, text: str) -> list[tuple[str, str, int]]:
    return [
        (declaration.kind, "/".join(declaration.path), declaration.line)
        for declaration in written_declarations(suffix, text.splitlines())
    ]


@pytest.mark.parametrize("suffix", [".h", ".c", ".cpp"])
def test_macros_are_declarations_but_guards_are_none(suffix: str) -> None:
    assert paths(suffix, HEADER) == [
        ("constant", "DEFAULT_PORT", 5),
        ("constant", "OBJ_ENCODING_LISTPACK", 7),
        ("function", "UNUSED", 8),
        ("function", "serverAssert", 9),
    ]
    last = written_declarations(suffix, HEADER.splitlines())[-1]
    assert last == WrittenDeclaration(("serverAssert",), "function", 9, 9, 11)


def test_attributes_that_methods_set_belong_to_their_class() -> None:
    assert paths(".py", PYTHON) == [
        ("field", "App/extensions", 6),
        ("field", "App/width", 7),
        ("field", "App/height", 7),
        ("field", "App/Inner/deep", 14),
        ("field", "Second/extensions", 19),
    ]


def test_what_is_assigned_to_exports_prototypes_and_objects_is_declared() -> None:
    assert paths(".js", SCRIPT) == [
        ("variable", "etag", 2),
        ("function", "compileETag", 3),
        ("function", "parse", 6),
        ("method", "app/handle", 7),
        ("field", "app/settings", 8),
        ("method", "res/set", 10),
        ("method", "res/header", 10),
        ("method", "Queue/push", 11),
        ("field", "Queue/items", 11),
        ("field", "Stack/size", 12),
        ("field", "Server/port", 17),
    ]


EXPORTS = """\
import { first as imported } from './a';
export { target as goal, other } from './core';
export type {
  Options as Settings, // a comment
  Plain,
  last as default,
};
export * as tools from './tools';
const x = y as unknown;
"""


def test_other_names_in_lists_of_exports_are_declared() -> None:
    assert paths(".ts", EXPORTS) == [
        ("variable", "goal", 2),
        ("variable", "Settings", 4),
        ("variable", "tools", 8),
    ]


@pytest.mark.parametrize(
    ("suffix", "text", "name"),
    [
        (".h", HEADER, "UNUSED"),
        (".py", PYTHON, "height"),
        (".py", PYTHON, "extensions"),
        (".js", SCRIPT, "header"),
        (".ts", EXPORTS, "goal"),
    ],
)
def test_a_search_finds_the_lines_that_may_declare_a_name(suffix: str, text: str, name: str) -> None:
    pattern = re.compile(declaring_pattern(frozenset({suffix, ".txt"}), name))
    declared = [
        each.line for each in written_declarations(suffix, text.splitlines()) if each.path[-1] == name
    ]
    assert declared
    assert set(declared) <= {
        number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)
    }


def test_other_languages_leave_nothing_out() -> None:
    assert not declaring_pattern(frozenset({".go", ".rs"}), "x")
    assert not paths(".go", "x.y = func() {}\n")
