"""Names that a script only imports, or exports again, are no declarations of it."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.tools.symbols.symbols import BINDING, import_finder
from lm_tools_bridge.code_intelligence.wire.positions import Position

IMPORTS = """\
import { here } from './a';
import type {
  here,
  there as here,
} from "b";
import here = require('c');
import here, * as all from "d"; import 'e';
export { here } from './f';
export type { here };
""".splitlines()
DECLARATIONS = """\
export const here = 1;
const here = await import('./a');
export default function here() {}
const url = import.meta.url; let here;
import { other } from './a'; const here = other;
// import of here
class here { import = 'x' }
""".splitlines()


def place(lines: list[str], number: int) -> Position:
    return Position(number + 1, lines[number].index("here") + 1)


@pytest.mark.parametrize("number", [number for number, line in enumerate(IMPORTS) if "here" in line])
def test_a_name_in_an_import_is_no_declaration(number: int) -> None:
    assert import_finder(IMPORTS)(place(IMPORTS, number))


@pytest.mark.parametrize("number", range(len(DECLARATIONS)))
def test_a_name_beside_an_import_is_one(number: int) -> None:
    assert not import_finder(DECLARATIONS)(place(DECLARATIONS, number))


BINDINGS = """\
const { here } = utils;
var here = errors.here;
const {other, here} = require('./a');
""".splitlines()


@pytest.mark.parametrize("number", range(len(BINDINGS)))
def test_a_module_of_commonjs_binds_a_name_to_what_another_exports(number: int) -> None:
    assert import_finder(BINDINGS, BINDING)(place(BINDINGS, number))


@pytest.mark.parametrize("line", ["  const { here } = this;", "const here = user.name;", "let here = 1;"])
def test_other_variables_are_no_such_bindings(line: str) -> None:
    assert not import_finder([line], BINDING)(place([line], 0))
