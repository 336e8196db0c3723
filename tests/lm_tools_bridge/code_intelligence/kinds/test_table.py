"""Which kinds of servers there are, and which of several is asked."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.kinds.table import KINDS, OUTLINE
from lm_tools_bridge.code_intelligence.server import RunnableProgram, Unavailable
from lm_tools_bridge.code_intelligence.specification import Role
from support.projects.canary_project import TRIED
from support.projects.language_project import LanguageProject


def chosen(project: LanguageProject, role: Role, file: str | None = None) -> list[list[str]]:
    path = None if file is None else project.root / file
    return [[kind.name for kind in group] for group in project.kinds().choose_kinds(role, path)]


@pytest.mark.parametrize(
    ("file", "symbols", "diagnostics"),
    [
        ("a.py", [["ty", "basedpyright", "pyright", "tree-sitter"]], ["ty", "ruff"]),
        ("a.cpp", [["clangd", "tree-sitter"]], ["clangd"]),
        ("a.rs", [["rust-analyzer", "tree-sitter"]], ["rust-analyzer"]),
        ("a.tsx", [["typescript", "typescript-language-server", "vtsls", "tree-sitter"]], ["typescript"]),
        ("a.unknown", [], []),
    ],
)
def test_a_file_has_the_servers_of_its_language(
    project: LanguageProject, file: str, symbols: list[list[str]], diagnostics: list[str]
) -> None:
    project.put(file)
    assert chosen(project, "symbols", file) == symbols
    assert [group[0] for group in chosen(project, "diagnostics", file)] == diagnostics


@pytest.mark.parametrize(
    ("file", "text", "first"),
    [
        ("pyproject.toml", "[tool.basedpyright]\n", "basedpyright"),
        ("pyproject.toml", "[tool.pyright]\n", "pyright"),
        ("pyrightconfig.json", "{}", "pyright"),
        ("pyproject.toml", "[tool.ruff]\n", "ty"),
        ("pyproject.toml", "not TOML", "ty"),
    ],
)
def test_what_the_project_configures_comes_first(
    project: LanguageProject, file: str, text: str, first: str
) -> None:
    project.put("a.py")
    project.put(file, text=text)
    assert chosen(project, "symbols", "a.py")[0][0] == first


def test_a_server_that_the_user_names_comes_first(project: LanguageProject) -> None:
    project.put("a.py")
    mine = project.entry("jedi", command=("jedi",), languages={".py": "python"})
    (group,) = project.kinds(mine).choose_kinds("symbols", project.root / "a.py")
    assert [kind.name for kind in group][:2] == ["jedi", "ty"]


def test_eslint_is_for_projects_that_configure_it(project: LanguageProject) -> None:
    project.put("a.js")
    assert ["eslint"] not in chosen(project, "diagnostics")
    project.put("eslint.config.mjs")
    assert ["eslint", "eslint-check"] in chosen(project, "diagnostics")


def test_servers_for_formats_of_data_are_named_only_if_they_are_there(project: LanguageProject) -> None:
    project.put("a.yaml")
    assert chosen(project, "diagnostics") == []
    project.on_path("yaml-language-server")
    assert chosen(project, "diagnostics") == [["yaml"]]


def test_dependencies_are_no_languages_of_the_project(project: LanguageProject) -> None:
    project.put("node_modules/x/a.ts", ".venv/lib/a.py")
    assert project.kinds().known_kinds() == []


@pytest.mark.parametrize("name", sorted(set(KINDS) - {OUTLINE.name}))  # an extra of this product
def test_every_kind_says_how_it_is_installed(name: str) -> None:
    assert KINDS[name].install_step
    assert all(KINDS[name].commands)


def test_each_kind_that_runs_without_trust_is_tried_with_canaries() -> None:
    reasons = {name: kind.runs_nothing_of_the_project for name, kind in KINDS.items()}
    assert {name for name, reason in reasons.items() if reason} == set(TRIED)


def test_checkers_wait_for_trust_because_they_run_without_the_fence() -> None:
    assert [kind.name for kind in KINDS.values() if kind.check and kind.runs_nothing_of_the_project] == []


@pytest.mark.parametrize("name", sorted(set(KINDS) - set(TRIED)))
def test_each_other_kind_waits_for_trust(project: LanguageProject, name: str) -> None:
    project.on_path(KINDS[name].commands[0][0])
    found = project.kinds().find(KINDS[name])
    assert isinstance(found, Unavailable)
    assert found.state == "untrusted"
    assert f"lmtb trust {project.root}" in found.reason


def test_servers_for_data_ask_no_address_that_a_file_names() -> None:
    assert KINDS["json"].options["handledSchemaProtocols"] == ["file"]
    assert KINDS["yaml"].settings["http"]["proxy"] == "http://127.0.0.1:9"
    assert KINDS["yaml"].settings["yaml"]["schemaStore"] == {"enable": False}


@pytest.mark.parametrize(
    ("files", "text", "chosen_for_them"),
    [
        (("a.py", "mypy.ini"), "", ["ty", "ruff", "mypy"]),
        (("a.py", "pyproject.toml"), "[tool.mypy]\n", ["ty", "ruff", "mypy"]),
        (("a.py", "pyproject.toml"), "[tool.ruff]\n", ["ty", "ruff"]),
        (("a.rs", "Cargo.toml"), "", ["cargo-check"]),
        (("a.go", "go.mod"), "", ["gopls"]),
        (("a.js", "eslint.config.js"), "", ["typescript", "eslint"]),
    ],
)
def test_checkers_stand_beside_servers_or_for_them(
    project: LanguageProject, files: tuple[str, ...], text: str, chosen_for_them: list[str]
) -> None:
    project.put(*files, text=text)
    assert [group[0] for group in chosen(project, "diagnostics")] == chosen_for_them
    assert not any("mypy" in group or "cargo-check" in group for group in chosen(project, "symbols"))


def test_an_older_compiler_checks_where_no_server_is(project: LanguageProject) -> None:
    project.put("a.ts", "tsconfig.json")
    project.on_path("tsc")
    kinds = project.kinds()
    project.trust_all(kinds)
    [group] = kinds.choose_kinds("diagnostics", project.root / "a.ts")
    found = [kind.name for kind in group if isinstance(kinds.find(kind), RunnableProgram)]
    assert found == ["tsc"]


@pytest.mark.parametrize(
    ("name", "files", "why"),
    [("mypy", ("a.py", "mypy.ini"), "plug-ins"), ("tsc", ("a.ts", "tsconfig.json"), "files to write")],
)
def test_a_checker_whose_configuration_can_do_harm_waits_for_trust(
    project: LanguageProject, name: str, files: tuple[str, ...], why: str
) -> None:
    project.put(*files)
    project.on_path(name)
    kinds = project.kinds()
    found = kinds.find(KINDS[name])
    assert isinstance(found, Unavailable)
    assert (found.state, why in found.reason) == ("untrusted", True)
    project.trust_all(kinds)
    assert isinstance(kinds.find(KINDS[name]), RunnableProgram)
    assert not project.ran.exists()


def test_the_version_of_the_project_chooses_the_server_for_scripts(project: LanguageProject) -> None:
    project.put("a.ts")
    project.put("package.json", text='{"devDependencies": {"typescript": "^5.9.3"}}')
    older = [["typescript-language-server", "vtsls", "typescript", "tree-sitter"]]
    assert chosen(project, "symbols", "a.ts") == older
    kind = project.kinds().kind_named("typescript")
    assert kind is not None
    assert "asks for TypeScript ^5.9.3, and this is TypeScript 7" in kind.doubt


def test_a_project_of_typescript_7_has_the_native_server_without_doubt(project: LanguageProject) -> None:
    project.put("a.ts")
    project.put("package.json", text='{"devDependencies": {"typescript": "^5.9.3"}}')
    project.put("node_modules/typescript/package.json", text='{"version": "7.0.2"}')
    assert chosen(project, "symbols", "a.ts")[0][0] == "typescript"
    kind = project.kinds().kind_named("typescript")
    assert kind is not None
    assert not kind.doubt


def test_gopls_does_not_run_without_go(project: LanguageProject) -> None:
    project.put("a.go")
    project.on_path("gopls")
    kinds = project.kinds()
    project.trust_all(kinds)
    place = kinds.find(KINDS["gopls"])
    assert isinstance(place, Unavailable)
    assert (place.state, "`go` was not found" in place.reason) == ("missing", True)
    project.program(".venv/bin/go")  # which is not on the PATH of the server
    assert isinstance(kinds.find(KINDS["gopls"]), Unavailable)
    project.on_path("go")
    assert isinstance(kinds.find(KINDS["gopls"]), RunnableProgram)
