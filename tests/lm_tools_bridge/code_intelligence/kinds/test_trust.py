"""What a project brings does not run before the user trusts it."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.kinds.available_kinds import AvailableKinds
from lm_tools_bridge.code_intelligence.server import RunnableProgram, Unavailable
from support.projects.language_project import LanguageProject, npm_tool


def state(kinds: AvailableKinds, name: str) -> str:
    """The first word of the command line, or why there is none."""
    kind = kinds.kind_named(name)
    assert kind is not None
    found = kinds.find(kind)
    return found.state if isinstance(found, Unavailable) else found.argv[0]


def keys(kinds: AvailableKinds) -> dict[str, bool]:
    """The items, and whether each is optional."""
    return {item.key: item.is_optional for item in kinds.items()}


@pytest.mark.parametrize(
    ("file", "program", "name"),
    [
        ("a.py", ".venv/bin/ty", "ty"),
        ("a.py", "venv/bin/ruff", "ruff"),
        ("a.py", "node_modules/.bin/pyright-langserver", "pyright"),
        ("a.cpp", ".venv/bin/clangd", "clangd"),
        ("a.ts", "node_modules/.bin/vtsls", "vtsls"),
        ("a.yaml", "node_modules/.bin/yaml-language-server", "yaml"),
    ],
)
def test_programs_of_the_project_wait_for_trust(
    project: LanguageProject, file: str, program: str, name: str
) -> None:
    project.put(file)
    own = project.program(program)
    kinds = project.kinds()
    assert state(kinds, name) == "untrusted"
    # nothing is missed where a format of data has no server
    assert keys(kinds) == {f"language-server:{name}": name == "yaml"}
    project.trust_all(kinds)
    assert state(kinds, name) == str(own)
    assert not project.ran.exists()


def test_the_reason_names_the_program_and_the_command_that_trusts_it(project: LanguageProject) -> None:
    project.put("a.py")
    own = project.program(".venv/bin/ty")
    kinds = project.kinds()
    kind = kinds.kind_named("ty")
    assert kind is not None
    found = kinds.find(kind)
    assert isinstance(found, Unavailable)
    assert str(own) in found.reason
    assert f"lmtb trust {project.root}" in found.reason


def test_a_compiler_in_node_modules_waits_for_trust(project: LanguageProject) -> None:
    project.put("a.ts")
    link = npm_tool(project.root, "typescript", "7.0.2")
    kinds = project.kinds()
    assert state(kinds, "typescript") == "untrusted"
    project.trust_all(kinds)
    assert state(kinds, "typescript") == str(link)


def test_a_changed_program_waits_for_trust_again(project: LanguageProject) -> None:
    project.put("a.py")
    own = project.program(".venv/bin/ty")
    kinds = project.kinds()
    project.trust_all(kinds)
    own.write_text("#!/bin/sh\nevil\n")
    assert state(kinds, "ty") == "untrusted"


def test_trust_of_one_program_is_no_trust_of_another(project: LanguageProject) -> None:
    project.put("a.py")
    project.program(".venv/bin/ty")
    kinds = project.kinds()
    project.trust_all(kinds)
    project.program("venv/bin/ruff")
    assert state(kinds, "ruff") == "untrusted"


def test_the_users_program_runs_while_the_projects_waits(project: LanguageProject) -> None:
    project.put("a.py")
    own, users = project.program(".venv/bin/ty"), project.on_path("ty")
    kinds = project.kinds()
    assert state(kinds, "ty") == str(users)
    assert keys(kinds) == {"language-server:ty": True}
    project.trust_all(kinds)
    assert state(kinds, "ty") == str(own)


@pytest.mark.parametrize(
    ("file", "program", "name"),
    [
        ("a.rs", "rust-analyzer", "rust-analyzer"),
        ("a.go", "gopls", "gopls"),
        ("a.py", "basedpyright-langserver", "basedpyright"),
        ("a.py", "pyrefly", "pyrefly"),
        ("a.ts", "typescript-language-server", "typescript-language-server"),
        ("a.ts", "vtsls", "vtsls"),
        ("A.java", "jdtls", "jdtls"),
        ("A.cs", "csharp-ls", "csharp-ls"),
        ("a.zig", "zls", "zls"),
        ("a.lua", "lua-language-server", "lua"),
        ("a.py", "pyright-langserver", "pyright"),
        ("a.sh", "bash-language-server", "bash"),
    ],
)
def test_servers_that_run_code_of_projects_wait_although_they_are_the_users(
    project: LanguageProject, file: str, program: str, name: str
) -> None:
    project.put(file)
    users = project.on_path(program)
    project.on_path("go")  # without it, gopls does not run
    kinds = project.kinds()
    assert state(kinds, name) == "untrusted"
    project.trust_all(kinds)
    assert state(kinds, name) == str(users)


@pytest.mark.parametrize(
    ("program", "name"),
    [("ty", "ty"), ("ruff", "ruff"), ("clangd", "clangd")],
)
def test_servers_that_only_read_run_without_a_question(
    project: LanguageProject, program: str, name: str
) -> None:
    project.put("a.py", "a.cpp", "compile_commands.json")
    users = project.on_path(program)
    kinds = project.kinds()
    assert state(kinds, name) == str(users)
    assert keys(kinds) == {}


def test_only_what_runs_without_a_question_is_fenced(project: LanguageProject) -> None:
    project.put("a.py", "a.lua")
    project.on_path("ty")
    project.on_path("lua-language-server")
    kinds = project.kinds()
    project.trust_all(kinds)
    fenced = {}
    for name in ("ty", "lua"):
        kind = kinds.kind_named(name)
        assert kind is not None
        found = kinds.find(kind)
        assert isinstance(found, RunnableProgram)
        fenced[name] = found.is_fenced
    assert fenced == {"ty": True, "lua": False}


def test_a_kind_that_says_nothing_waits(project: LanguageProject) -> None:
    project.put("a.foo")
    program = project.on_path("foo-server")
    entry = project.entry("foo", command=(str(program),), languages={".foo": "foo"})
    kinds = project.kinds(entry)
    assert state(kinds, "foo") == "untrusted"
    kind = kinds.kind_named("foo")
    assert kind is not None
    found = kinds.find(kind)
    assert isinstance(found, Unavailable)
    assert "foo may run code of the project" in found.reason
    assert "lmtb trust" in found.reason
    project.trust_all(kinds)
    assert state(kinds, "foo") == str(program)


def test_nothing_is_asked_for_where_a_better_server_runs(project: LanguageProject) -> None:
    project.put("a.py")
    for name in ("ty", "basedpyright-langserver", "pyrefly"):
        project.on_path(name)
    assert keys(project.kinds()) == {}


def test_one_of_several_alternatives_is_asked_for(project: LanguageProject) -> None:
    project.put("a.ts")
    for name in ("typescript-language-server", "vtsls"):
        project.on_path(name)
    assert keys(project.kinds()) == {"language-server:typescript-language-server": False}


def test_what_the_project_chose_is_optional_while_another_runs(project: LanguageProject) -> None:
    project.put("a.py")
    project.put("pyproject.toml", text="[tool.basedpyright]\n")
    project.on_path("basedpyright-langserver")
    project.on_path("ty")
    assert keys(project.kinds()) == {"language-server:basedpyright": True}


def test_an_entry_of_the_project_waits_for_trust(project: LanguageProject) -> None:
    project.put("a.foo")
    evil = project.program("evil")
    entry = project.entry("foo", "workspace", command=("./evil",), languages={".foo": "foo"})
    kinds = project.kinds(entry)
    assert state(kinds, "foo") == "untrusted"
    assert keys(kinds) == {"language-server:foo": False}
    project.trust_all(kinds)
    assert state(kinds, "foo") == str(project.root / "./evil")
    evil.write_text("#!/bin/sh\nworse\n")
    assert state(kinds, "foo") == "untrusted"
    assert not project.ran.exists()


def test_an_entry_of_the_project_takes_no_known_server_over(project: LanguageProject) -> None:
    project.put("a.py")
    project.program("evil")
    users = project.on_path("ty")
    kinds = project.kinds(project.entry("ty", "workspace", command=("./evil", "server")))
    assert state(kinds, "ty") == str(users)
    project.trust_all(kinds)
    assert state(kinds, "ty") == str(project.root / "./evil")


def test_options_of_the_project_count_when_they_are_trusted(project: LanguageProject) -> None:
    project.put("a.py")
    project.on_path("ty")
    settings = {"ty": {"interpreter": "./evil"}}
    entry = project.entry("ty", "workspace", settings=settings, raw={"settings": settings})
    kinds = project.kinds(entry)
    before = kinds.kind_named("ty")
    assert before is not None
    assert "interpreter" not in before.settings["ty"]
    assert isinstance(kinds.find(before), RunnableProgram)
    project.trust_all(kinds)
    after = kinds.kind_named("ty")
    assert after is not None
    assert after.settings["ty"]["interpreter"] == "./evil"
    changed = project.kinds(project.entry("ty", "workspace", raw={"settings": {}}))
    assert "interpreter" not in (changed.kind_named("ty") or before).settings["ty"]


@pytest.mark.parametrize(
    "change",
    [
        {"command": ("clangd", "--query-driver=/**")},
        {"settings": {"clangd": {"path": "x"}}},
        {"options": {"compilationDatabasePath": "x"}},
        {"env": {"CLANGD_FLAGS": "--query-driver=/**"}},
    ],
)
def test_what_is_known_of_a_kind_is_not_said_of_one_that_the_user_changed(
    project: LanguageProject, change: dict[str, object]
) -> None:
    project.put("a.cpp", "compile_commands.json")
    users = project.on_path("clangd")
    kinds = project.kinds(project.entry("clangd", **change))
    assert state(kinds, "clangd") == "untrusted"
    claim = "I looked: it runs nothing"
    kinds = project.kinds(project.entry("clangd", **change, runs_nothing_of_the_project=claim))
    assert state(kinds, "clangd") == str(users)


def test_limits_of_the_user_change_nothing_of_what_is_known(project: LanguageProject) -> None:
    project.put("a.cpp", "compile_commands.json")
    users = project.on_path("clangd")
    kinds = project.kinds(project.entry("clangd", memory_limit_bytes=1 << 33, idle_s=60.0))
    assert state(kinds, "clangd") == str(users)


def test_no_word_of_the_user_is_about_a_program_of_the_project(project: LanguageProject) -> None:
    project.put("a.py")
    own = project.program("tools/serve")
    entry = project.entry("ty", command=(str(own), "--stdio"), runs_nothing_of_the_project="it is mine")
    kinds = project.kinds(entry)
    assert state(kinds, "ty") == "untrusted"
    project.trust_all(kinds)
    assert state(kinds, "ty") == str(own)


def test_a_command_of_the_user_does_not_trust_code_of_projects(project: LanguageProject) -> None:
    project.put("a.rs")
    program = project.on_path("my-analyzer")
    kinds = project.kinds(project.entry("rust-analyzer", command=(str(program),)))
    assert state(kinds, "rust-analyzer") == "untrusted"


def test_either_file_can_switch_a_server_off(project: LanguageProject) -> None:
    project.put("a.py")
    project.on_path("ty")
    assert state(project.kinds(project.entry("ty", enabled=False)), "ty") == "disabled"
    assert state(project.kinds(project.entry("ty", "workspace", enabled=False)), "ty") == "disabled"


def test_secrets_of_an_entry_are_not_in_its_item(project: LanguageProject) -> None:
    project.put("a.foo")
    project.program("serve")
    entry = project.entry(
        *("foo", "workspace"),
        command=("./serve",),
        languages={".foo": "foo"},
        env={"API_KEY": "hunter2"},
        raw={"command": ["./serve"], "env": {"API_KEY": "hunter2"}, "options": {"token": "hunter2"}},
    )
    (item,) = project.kinds(entry).items()
    assert "hunter2" not in f"{item.title} {item.facts}"
