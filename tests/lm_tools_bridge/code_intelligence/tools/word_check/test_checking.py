"""Answers are compared with the words of the project: `fresh` is said only if nothing unexplained is left."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import RequestTimedOut
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.editing import rename_symbol
from lm_tools_bridge.code_intelligence.tools.use_pages import MAX_TOKENS
from lm_tools_bridge.code_intelligence.tools.word_check import checking, project_words, questions
from lm_tools_bridge.text.text_tokens import text_tokens
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import CONTEXT, InMemoryServer, at, kind, workplace_of
from support.servers.language_servers.python_symbols import file_of, found, python_server, uses, word_at
from workspace_server.tool import ToolError

FILES = {
    "src/a.py": "def old():\n    pass\n",
    "src/b.py": "from a import old\nold()\n",
    "tests/c.py": "from a import old\n\n\nassert old() and old()\n",
    "tests/d.py": "# old, and 'old'\nx = 'old'\n",
    "README.md": "old\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", FILES)


def server_of(root: Path) -> InMemoryServer:
    """A server that knows that strings are no names."""
    server = python_server(root)
    for method in ("textDocument/definition", "textDocument/references"):
        server.answers[method] = _code_only(server.answers[method])
    return server


def _code_only(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda params: [
        one for one in answer(params) if "d.py" not in one["uri"] and file_of(params).name != "d.py"
    ]


def without_tests(root: Path) -> InMemoryServer:
    """A server that knows no use in `tests`, though it says that it is complete."""
    server = server_of(root)
    for method in ("textDocument/references", "textDocument/rename"):
        server.answers[method] = _without_tests(server.answers[method])
    return server


def _without_tests(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def cut(params: Any) -> Any:
        result = answer(params)
        if isinstance(result, Mapping):
            return {
                "changes": {uri: edits for uri, edits in result["changes"].items() if "/tests/" not in uri}
            }
        return [one for one in result if "/tests/" not in one["uri"]]

    return cut


async def ask(root: Path, server: InMemoryServer, **arguments: Any) -> dict[str, Any]:
    arguments.setdefault("symbol", "old")
    result = await references.call("lm_references", workplace_of(root, server), arguments, CONTEXT)
    assert isinstance(result.structured, dict)
    return {**result.structured, "text": result.text}


async def rename(root: Path, server: InMemoryServer, **arguments: Any) -> dict[str, Any]:
    asked = {"symbol": "old", "newName": "new", **arguments}
    result = await rename_symbol.call("lm_renameSymbol", workplace_of(root, server), asked, CONTEXT)
    assert isinstance(result.structured, dict)
    return result.structured


async def test_an_answer_with_all_words_stays_fresh_and_tells_what_it_rightly_leaves_out(root: Path) -> None:
    answer = await ask(root, server_of(root))
    assert answer["freshness"] == [{"provider": "py", "state": "fresh"}]
    assert answer["words"]["complete"]
    assert "left out: 2 lines in comments and strings (1 with the name alone in quotes)" in answer["text"]


async def test_uses_that_the_server_left_out_are_told_and_listed_apart_from_those_that_it_proved(
    root: Path,
) -> None:
    answer = await ask(root, without_tests(root))
    assert answer["freshness"] == [
        {
            "provider": "py",
            "state": "partial",
            "reason": "2 more lines in 1 file have the word old: "
            "proj/tests/c.py (2) (uses by the server's own definition, which it left out)",
        }
    ]
    assert {one["workspacePath"] for one in answer["references"]} == {"proj/src/b.py"}
    assert answer["words"]["missingFiles"] == [
        {
            "workspacePath": "proj/tests/c.py",
            "count": 2,
            "firstLines": [1, 4],
            "why": "uses by the server's own definition, which it left out",
        }
    ]
    assert [(use["workspacePath"], use["line"], use["preview"]) for use in answer["possible"]] == [
        ("proj/tests/c.py", 1, "from a import old"),
        ("proj/tests/c.py", 4, "assert old() and old()"),
    ]
    assert "possible: 2 more lines in 1 file, listed after the uses" in answer["text"]
    assert answer["text"].endswith(
        "possible uses: lines of code with the word; no server proved them or ruled them out\n---\n"
        "proj/tests/c.py (uses by the server's own definition, which it left out)\n"
        "1: from a import old\n4: assert old() and old()"
    )


async def test_a_declaration_that_the_server_leaves_out_is_there_if_it_is_asked_for(root: Path) -> None:
    server = server_of(root)
    everywhere = server.answers["textDocument/references"]
    server.answers["textDocument/references"] = lambda params: [
        use for use in everywhere(params) if "a.py" not in use["uri"]
    ]
    answer = await ask(root, server, includeDeclaration=True)
    assert next(use["workspacePath"] for use in answer["references"]) == "proj/src/a.py"
    assert answer["freshness"] == [{"provider": "py", "state": "fresh"}]


async def test_possible_uses_follow_the_proven_ones_on_later_pages(root: Path) -> None:
    server, pages, offset = without_tests(root), [], 0
    while offset is not None:
        answer = await ask(root, server, limit=1, offset=offset, detail="places")
        assert (answer["total"], answer["possibleTotal"]) == (2, 2)
        pages += [(use["workspacePath"], use["startLine"]) for use in answer["references"]]
        pages += [(use["workspacePath"], use["line"]) for use in answer["possible"]]
        offset = answer["nextOffset"]
    b, c = "proj/src/b.py", "proj/tests/c.py"
    assert pages == [(b, 1), (b, 2), (c, 1), (c, 4)]
    text = (await ask(root, server, detail="places"))["text"]
    assert text.endswith(f"{c} 1, 4 (uses by the server's own definition, which it left out)")


async def test_names_that_a_module_of_commonjs_gives_to_an_import_are_possible_uses(tmp_path: Path) -> None:
    library = "exports.parse = function parse() {};\n"
    user = "const {parse} = require('./library');\nparse();\n"
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"library.js": library, "user.js": user})
    server = InMemoryServer(kind("js", ".js"))
    own = {"uri": (root / "library.js").as_uri(), "range": at(0, 8, 0, 13)}
    bound = {"uri": (root / "user.js").as_uri(), "range": at(0, 7, 0, 12)}
    server.answers["textDocument/documentSymbol"] = lambda _: []
    server.answers["textDocument/references"] = lambda _: [own]
    server.answers["textDocument/definition"] = lambda params: [
        own if "library" in params["textDocument"]["uri"] else bound
    ]
    answer = await ask(root, server, symbol="parse")
    assert answer["freshness"][0]["state"] == "partial"
    assert [(use["line"], use["why"]) for use in answer["possible"] if "user" in use["workspacePath"]] == [
        (1, "through an import or export that the server does not follow"),
        (2, "through an import or export that the server does not follow"),
    ]


async def test_the_structured_content_of_uses_is_as_short_as_that_of_diagnostics(root: Path) -> None:
    many = "".join(f"old()  # {number} {'long ' * 20}\n" for number in range(300))
    write_tree(root, {"src/b.py": "from a import old\n" + many})
    answer = await ask(root, server_of(root), limit=300)
    assert answer["total"] == 304
    assert answer["count"] == answer["nextOffset"] == len(answer["references"]) < 300
    assert text_tokens(json.dumps(answer["references"])) < 1.2 * MAX_TOKENS
    assert "nextOffset: " in answer["text"]
    assert text_tokens(answer["text"]) < 1.2 * MAX_TOKENS


async def test_words_that_the_server_cannot_place_make_an_answer_partial(root: Path) -> None:
    server = without_tests(root)
    del server.answers["textDocument/definition"]
    answer = await ask(root, server)
    assert answer["freshness"][0]["state"] == "partial"
    assert answer["words"]["missingLines"] == 2


async def test_an_answer_that_is_partial_already_keeps_its_reason(root: Path) -> None:
    server = without_tests(root)
    server.state = Freshness("py", "unknown", "it gives no sign")
    part = (await ask(root, server))["freshness"][0]
    assert part["state"] == "unknown"
    assert part["reason"].startswith("it gives no sign; 2 more lines in 1 file have the word old: ")


async def test_another_symbol_of_the_name_is_no_missing_use(root: Path) -> None:
    write_tree(root, {"tests/c.py": "class Other:\n    def old(self):\n        pass\n\n\nOther().old()\n"})
    server = without_tests(root)
    everywhere = server.answers["textDocument/definition"]

    def definition(params: Any) -> Any:
        if "c.py" not in params["textDocument"]["uri"]:
            return everywhere(params)
        return [one["location"] for one in found(root) if one["containerName"] == "Other"]

    server.answers["textDocument/definition"] = definition
    answer = await ask(root, server, filePath="src/a.py")
    assert answer["freshness"][0]["state"] == "fresh"
    assert answer["words"]["linesWithOtherSymbols"] == 2


async def test_many_uses_of_another_symbol_cost_few_questions(root: Path) -> None:
    text = "class Other:\n    def old(self):\n        pass\n\n\n" + "Other().old()\n" * 100
    write_tree(root, {"tests/c.py": text})
    server = without_tests(root)
    functions = [one["location"] for one in found(root) if one["name"] == "old"]

    def is_other(location: Any) -> bool:
        return "c.py" in location["uri"]

    def definition(params: Any) -> Any:
        return [one for one in functions if is_other(one) == is_other(params["textDocument"])]

    def all_uses(params: Any) -> Any:
        return [
            one
            for one in uses(root, "old", declarations=True)
            if is_other(one) == is_other(params["textDocument"])
        ]

    server.answers["textDocument/definition"] = _code_only(definition)
    server.answers["textDocument/references"] = _code_only(all_uses)
    answer = await ask(root, server, filePath="src/a.py")
    assert (answer["freshness"][0]["state"], answer["words"]["linesWithOtherSymbols"]) == ("fresh", 101)
    assert sum(method == "textDocument/definition" for method, _ in server.asked) < 20


async def test_a_word_that_leads_to_an_installed_copy_of_the_file_is_no_other_symbol(root: Path) -> None:
    copy = write_tree(root, {".venv/lib/src/a.py": "def old():\n    pass\n"}) / ".venv/lib/src/a.py"
    server = without_tests(root)
    own = {"uri": (root / "src/a.py").as_uri(), "range": at(0, 4, 0, 7)}
    installed = {**own, "uri": copy.as_uri()}
    server.answers["textDocument/references"] = _in_project(server.answers["textDocument/references"])
    server.answers["textDocument/definition"] = lambda params: (
        [installed if file_of(params).name == "c.py" else own]
    )
    answer = await ask(root, server, filePath="src/a.py")
    assert (
        "(the server takes it from a built or installed copy of the file)" in answer["freshness"][0]["reason"]
    )


def _in_project(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda params: [one for one in answer(params) if ".venv" not in one["uri"]]


async def test_what_is_guessed_in_a_file_that_is_not_compiled_explains_nothing(tmp_path: Path) -> None:
    files = {
        "compile_commands.json": f'[{{"directory": "{os.path.realpath(tmp_path)}/proj", "file": "a.c"}}]',
        "a.c": "void old(void) {}\n",
        "b.c": "void f(void) {\n  old();\n}\n",
    }
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)
    server = InMemoryServer(kind("clangd", ".c"))
    at_itself = {"a.c": at(0, 5, 0, 8), "b.c": at(1, 2, 1, 5)}
    server.answers = {
        "textDocument/references": lambda params: [],
        "textDocument/definition": lambda params: [
            {"uri": params["textDocument"]["uri"], "range": at_itself[file_of(params).name]}
        ],
    }
    answer = await ask(root, server, filePath="a.c", line=1)
    assert answer["freshness"][0]["reason"] == (
        "1 more line in 1 file has the word old: proj/b.c#2 (not in compile_commands.json)"
    )


async def test_a_server_that_knows_more_once_it_was_given_the_files_is_asked_again(root: Path) -> None:
    server = without_tests(root)
    cut = server.answers["textDocument/references"]

    def references_of(params: Any) -> Any:
        is_given = root / "tests/c.py" in server.opened
        return (
            [one for one in uses(root, word_at(params), declarations=True) if "d.py" not in one["uri"]]
            if is_given
            else cut(params)
        )

    server.answers["textDocument/references"] = references_of
    answer = await ask(root, server)
    assert answer["freshness"] == [{"provider": "py", "state": "fresh"}]
    assert answer["total"] == 5


async def test_a_comparison_ends_though_the_server_does_not_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "QUICK_S", 0.0)
    server = without_tests(root)

    def late(params: Any) -> Any:
        raise RequestTimedOut

    server.answers["textDocument/definition"] = late
    answer = await ask(root, server, filePath="src/a.py", line=1)
    assert "tests/c.py (2) (not looked at for want of time)" in answer["freshness"][0]["reason"]


async def test_a_search_that_does_not_end_makes_an_answer_partial(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_words, "MAX_LINES", 1)
    server = python_server(root)
    assert (await ask(root, server))["freshness"][0][
        "reason"
    ] == "not all files with the word old were compared"


async def test_a_comparison_can_be_switched_off(root: Path) -> None:
    workplace = replace(workplace_of(root, without_tests(root)), compares_words=False)
    result = await references.call("lm_references", workplace, {"symbol": "old"}, CONTEXT)
    assert result.structured is not None
    assert result.structured["freshness"] == [{"provider": "py", "state": "fresh"}]
    assert "words" not in result.structured


async def test_a_local_name_is_compared_in_its_file_only(root: Path) -> None:
    write_tree(root, {"src/a.py": "def f():\n    old = 1\n    return old\n"})
    server = python_server(root)
    place = {"uri": (root / "src/a.py").as_uri(), "range": at(2, 11, 2, 14)}
    declared = {"uri": (root / "src/a.py").as_uri(), "range": at(1, 4, 1, 7)}
    server.answers["textDocument/references"] = lambda params: [place]
    server.answers["textDocument/definition"] = lambda params: [declared]
    answer = await ask(root, server, filePath="src/a.py", line=2)
    assert answer["freshness"][0]["state"] == "fresh"


async def test_an_argument_is_compared_where_calls_name_it(root: Path) -> None:
    write_tree(root, {"src/a.py": "def f(old):\n    return old\n", "src/b.py": "f(old=1)\nold\n"})
    server = python_server(root)
    place = {"uri": (root / "src/a.py").as_uri(), "range": at(1, 11, 1, 14)}
    declared = {"uri": (root / "src/a.py").as_uri(), "range": at(0, 6, 0, 9)}
    server.answers["textDocument/references"] = lambda params: [place]
    server.answers["textDocument/definition"] = lambda params: [declared] if "a.py" in str(params) else []
    answer = await ask(root, server, filePath="src/a.py", line=1)
    assert answer["words"]["missingFiles"][0]["firstLines"] == [1]


async def test_a_member_that_a_constructor_sets_is_compared_everywhere(root: Path) -> None:
    write_tree(root, {"src/a.py": "class A:\n    def f(self):\n        self.old = 1\n"})
    server = python_server(root)
    declared = {"uri": (root / "src/a.py").as_uri(), "range": at(2, 13, 2, 16)}
    server.answers["textDocument/references"] = lambda params: []
    server.answers["textDocument/definition"] = lambda params: [declared] if "a.py" in str(params) else []
    answer = await ask(root, server, filePath="src/a.py", line=3)
    assert answer["words"]["missingLines"] == 4


async def test_a_rename_that_may_miss_places_changes_nothing(root: Path) -> None:
    with pytest.raises(
        ToolError, match=r"may miss places .*tests/c\.py .* No file was changed; .*allowIncomplete"
    ):
        await rename(root, without_tests(root))
    assert "old" in (root / "src/a.py").read_text()


async def test_a_rename_that_may_miss_places_is_shown_with_what_it_misses(root: Path) -> None:
    shown = await rename(root, without_tests(root), apply=False)
    assert (shown["applied"], shown["freshness"][0]["state"], shown["words"]["missingLines"]) == (
        False,
        "partial",
        2,
    )


async def test_a_rename_that_may_miss_places_is_applied_if_that_is_allowed(root: Path) -> None:
    applied = await rename(root, without_tests(root), allowIncomplete=True)
    assert (applied["applied"], applied["freshness"][0]["state"]) == (True, "partial")
    assert (root / "src/b.py").read_text() == "from a import new\nnew()\n"


async def test_a_rename_that_leaves_the_declaration_is_incomplete(root: Path) -> None:
    server = server_of(root)
    whole = server.answers["textDocument/rename"]
    server.answers["textDocument/rename"] = lambda params: {
        "changes": {uri: edits for uri, edits in whole(params)["changes"].items() if "a.py" not in uri}
    }
    with pytest.raises(ToolError, match=r"src/a\.py#1"):
        await rename(root, server)


class CountingServer(InMemoryServer):
    """It answers in a later turn of the loop, and counts the questions that are open at a time."""

    open_questions = most_questions = 0

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        self.open_questions += 1
        self.most_questions = max(self.most_questions, self.open_questions)
        await asyncio.sleep(0)
        self.open_questions -= 1
        return await super().request(method, params, timeout_s=timeout_s)


async def test_questions_are_asked_side_by_side(root: Path) -> None:
    write_tree(root, {f"tests/more_{number}.py": "old()\n" for number in range(20)})
    server = CountingServer(**vars(without_tests(root)))
    answer = await ask(root, server)
    assert server.most_questions == questions.ROUND
    assert answer["words"]["missingLines"] == 22


@pytest.mark.parametrize("name", ["references", "rename"])
async def test_uses_by_definition_are_part_of_an_answer_but_not_of_an_edit(root: Path, name: str) -> None:
    server = without_tests(root)
    server.specification = replace(server.specification, uses_by_definition=True)
    workplace = workplace_of(root, server)
    if name == "references":
        result = await references.call("lm_references", workplace, {"symbol": "old"}, CONTEXT)
        assert result.structured is not None
        places = [(use["workspacePath"], use["startLine"]) for use in result.structured["references"]]
        in_tests = [("proj/tests/c.py", 1), ("proj/tests/c.py", 4), ("proj/tests/c.py", 4)]
        assert places == [("proj/src/b.py", 1), ("proj/src/b.py", 2), *in_tests]
        assert result.structured["freshness"] == [{"provider": "py", "state": "fresh"}]
    else:
        with pytest.raises(ToolError, match=r"tests/c\.py"):
            arguments = {"symbol": "old", "newName": "new"}
            await rename_symbol.call("lm_renameSymbol", workplace, arguments, CONTEXT)


CONDITIONAL = {
    "a.c": "int old(void);\n#ifdef TLS\nint x = old();\n#endif\nint y = old();\n",
    "b.c": "static int old;\n",
}


def c_server(root: Path, *, is_read: bool) -> InMemoryServer:
    """A server like clangd, which guesses in code that a condition leaves out that a word is that of `b.c`."""
    server = InMemoryServer(kind("clangd", ".c", changes="open-documents"))

    def defined(params: Any) -> Any:
        line = params["position"]["line"]
        is_other = file_of(params).name == "b.c" or line == 2
        name, column = ("b.c", 11) if is_other else ("a.c", 4)
        return [{"uri": (root / name).as_uri(), "range": at(0, column, 0, column + 3)}]

    def highlights(params: Any) -> Any:
        return [] if params["position"]["line"] == 2 and not is_read else [{"range": at(0, 0)}]

    server.answers = {
        "textDocument/definition": defined,
        "textDocument/documentHighlight": highlights,
        "textDocument/references": lambda _: [{"uri": (root / "a.c").as_uri(), "range": at(4, 8, 4, 11)}],
    }
    return server


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_guess_about_code_that_a_condition_leaves_out_explains_nothing(
    tmp_path: Path, is_read: bool
) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", CONDITIONAL)
    place = {"symbol": None, "filePath": "a.c", "line": 1, "character": 5}
    answer = await ask(root, c_server(root, is_read=is_read), **place)
    (freshness,) = answer["freshness"]
    if is_read:
        assert freshness["state"] == "fresh"
        return
    assert freshness["reason"] == (
        "1 more line in 1 file has the word old: proj/a.c#3 (the server leaves out what stands under #ifdef TLS)"
    )


async def test_a_word_that_looks_like_a_part_of_a_string_counts_where_the_server_knows_it(root: Path) -> None:
    (root / "e.py").write_text("x = 'the old one'\n")
    server = server_of(root)
    named, defined = (server.answers[f"textDocument/{word}"] for word in ("references", "definition"))
    server.answers["textDocument/references"] = lambda params: [
        place for place in named(params) if "e.py" not in place["uri"]
    ]
    server.answers["textDocument/definition"] = lambda params: (
        [] if file_of(params).name == "e.py" else defined(params)
    )
    assert (await ask(root, server))["freshness"] == [{"provider": "py", "state": "fresh"}]
    everywhere = python_server(root).answers["textDocument/definition"]
    server.answers["textDocument/definition"] = lambda params: (
        everywhere(params) if file_of(params).name == "e.py" else defined(params)
    )
    answer = await ask(root, server)
    assert "proj/e.py#1" in answer["freshness"][0]["reason"]
