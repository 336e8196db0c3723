"""A hostile project that is full of canaries: whatever part of it is executed leaves its name outside of it.

Each canary is something that a program reads or starts on behalf of a project: programs in the folders where tools
look for them, wrapper scripts, settings of editors, environment and toolchain files, virtual environments,
modules that shadow those of an interpreter, plug-ins, configuration that is a program.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TRIED: Final = ("clangd", "css", "html", "json", "ruff", "tree-sitter", "ty", "typescript", "yaml")
"""The kinds of language servers that `languages/test_canaries.py` starts here without trust."""
TOOLS: Final = (
    *(
        "asdf",
        "black",
        "cargo",
        "cc",
        "clang",
        "clang-format",
        "clang-tidy",
        "clangd",
        "eslint",
        "g++",
        "gcc",
    ),
    *(
        "git",
        "go",
        "java",
        "lua",
        "luacheck",
        "luarocks",
        "make",
        "mypy",
        "node",
        "npm",
        "npx",
        "pip",
        "prettier",
    ),
    *(
        "python",
        "python3",
        "ruff",
        "rustc",
        "sh",
        "shellcheck",
        "shfmt",
        "stylelint",
        "tsc",
        "tsserver",
        "ty",
        "uv",
    ),
    *("yarn", "pnpm", "zig", "env", "bash", "dotnet", "conda", "poetry", "pyright", "ld", "as", "clang++"),
)
"""Names that tools start."""
PLACES: Final = (
    ".",
    "bin",
    ".bin",
    ".venv/bin",
    "venv/bin",
    "node_modules/.bin",
    "evil",
    "evil/bin",
    "tools",
)
"""Folders of projects in which programs are looked for."""
WRAPPERS: Final = ("gradlew", "mvnw", "bazelisk", "x.py", "configure", ".lsp-wrapper")
PYTHON_MODULES: Final = (
    "json",
    "os",
    "sys",
    "site",
    "sitecustomize",
    "usercustomize",
    "encodings",
    "re",
    "conftest",
)
NODE_CONFIGURATIONS: Final = (
    *(
        "eslint.config.js",
        "eslint.config.mjs",
        ".eslintrc.js",
        "prettier.config.js",
        ".prettierrc.js",
        "babel.config.js",
    ),
    *("tailwind.config.js", "postcss.config.js", "stylelint.config.js", "vite.config.js", "svelte.config.js"),
    *(".pnp.cjs", ".pnp.loader.mjs", "evil.js", "evil/index.js", "index.js", ".mocharc.js", "gulpfile.js"),
    *(
        "node_modules/evil/index.js",
        "node_modules/typescript/lib/tsserver.js",
        "node_modules/typescript/lib/typescript.js",
    ),
    *(
        "node_modules/prettier/index.cjs",
        "node_modules/vscode-languageserver/index.js",
        "schema.js",
        "data.js",
    ),
)


@dataclass(frozen=True)
class CanaryProject:
    """The project, and the file that each canary adds its name to.

    Attributes:
        root: its folder.
        ran: one line for each canary that was executed; missing if none was.
    """

    root: Path
    ran: Path

    @classmethod
    def hatched(cls, folder: Path) -> CanaryProject:
        """A new one in this folder."""
        project = cls(folder / "canaries", folder / "ran")
        project.root.mkdir()
        for write in (_programs, _python, _node, _c, _lua, _settings, _builds):
            write(project)
        return project

    def sang(self) -> list[str]:
        """The canaries that were executed."""
        return self.ran.read_text().split() if self.ran.exists() else []

    def put(self, name: str, text: str) -> Path:
        """A file; one that is there stays."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text)
        return path

    def put_json(self, name: str, value: object) -> None:
        """The same with a value."""
        self.put(name, json.dumps(value))

    def program(self, name: str) -> None:
        """A shell script."""
        self.put(name, f"#!/bin/sh\necho {name} >> {self.ran}\n").chmod(0o755)

    def module(self, name: str) -> None:
        """A Python module; it works where it cannot open files as well."""
        self.put(name, f"import posix\nposix.system('echo {name} >> {self.ran}')\n")

    def script(self, name: str) -> None:
        """A JavaScript file, for both kinds of modules."""
        text = f"process.getBuiltinModule('fs').appendFileSync({str(self.ran)!r}, {name + chr(10)!r})\n"
        self.put(name, text.replace("process.getBuiltinModule", "(process.getBuiltinModule || require)"))


def _programs(project: CanaryProject) -> None:
    project.put_json("node_modules/typescript/package.json", {"name": "typescript", "version": "7.0.2"})
    project.program("node_modules/typescript/bin/tsc")
    project.program("node_modules/@typescript/typescript-linux-x64/lib/tsc")
    (project.root / "node_modules/.bin").mkdir()
    (project.root / "node_modules/.bin/tsc").symlink_to("../typescript/bin/tsc")
    for place in PLACES:
        for tool in TOOLS:
            project.program(f"{place}/{tool}")
    for wrapper in WRAPPERS:
        project.program(wrapper)


def _python(project: CanaryProject) -> None:
    site = f".venv/lib/python3.{sys.version_info.minor}/site-packages"
    for module in PYTHON_MODULES:
        project.module(f"{module}.py")
        project.module(f"{site}/{module}.py")
    project.put(f"{site}/evil.pth", f"import os; os.system('echo evil.pth >> {project.ran}')\n")
    project.put(
        ".venv/pyvenv.cfg", f"home = {project.root}/evil/bin\nversion = 3.{sys.version_info.minor}.0\n"
    )
    project.put(
        "pyproject.toml",
        '[project]\nname = "x"\nversion = "1"\n[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
        '[tool.ty.environment]\npython = ".venv"\n[tool.ruff]\nextend = "evil/ruff.toml"\n'
        '[tool.pyright]\nextraPaths = ["."]\n[tool.basedpyright]\nvenv = ".venv"\n'
        '[tool.mypy]\nplugins = ["evil.py"]\n[tool.uv]\npython-preference = "only-system"\n[tool.pyrefly]\npython-interpreter-path = ".venv/bin/python"\n',
    )
    project.put("evil/ruff.toml", 'lint.select = ["ALL"]\n')
    project.module("evil.py")
    project.module("setup.py")
    project.put(
        "a.py", "import json\nimport evil\n\n\ndef greet(x: int) -> int:\n    return evil.y\n\n\ngreet('a')\n"
    )
    project.put(
        "s.py", '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["evil"]\n# ///\nimport evil\n'
    )


def _node(project: CanaryProject) -> None:
    for name in NODE_CONFIGURATIONS:
        project.script(name)
    project.put_json(
        "package.json",
        {
            "name": "x",
            "packageManager": "evil@1.0.0",
            "volta": {"node": "./evil"},
            "dependencies": {"left-pad": "*", "jquery": "*"},
            "scripts": dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), "sh gradlew"),
            "prettier": "./evil.js",
            "eslintConfig": {"plugins": ["./evil.js"]},
            "html.customData": ["./data.js"],
        },
    )
    project.put_json(
        "node_modules/evil/package.json", {"name": "evil", "main": "index.js", "version": "1.0.0"}
    )
    project.put(
        ".npmrc", f"script-shell={project.root}/gradlew\nnode-options=--require={project.root}/evil.js\n"
    )
    plugins = [{"name": name} for name in ("evil", "./evil", "../../evil")]
    project.put_json(
        "tsconfig.json",
        {
            "compilerOptions": {"plugins": plugins, "allowJs": True, "checkJs": True},
            "extends": ["./base.json"],
        },
    )
    project.put_json(
        "base.json",
        {"compilerOptions": {"plugins": plugins, "strict": True}, "typeAcquisition": {"enable": True}},
    )
    project.put(
        "a.ts",
        'import { y } from "evil";\nimport $ from "jquery";\nexport function greet(x: number) { return x; }\ngreet("a");\n',
    )
    project.put("plain/b.js", 'const $ = require("jquery");\nrequire("./evil.js");\n')
    project.put(
        "a.yaml",
        "# yaml-language-server: $schema=./schema.js\ngreet: 1\nother: !!js/function 'function(){ }'\n",
    )
    project.put("b.yaml", "$schema: ./schema.js\ngreet: [\n")
    project.put("a.json", '{"$schema": "./schema.js", "greet": 1}\n')
    project.put("b.json", '{"$schema": "./data.json", "greet": 1}\n')
    project.put_json(
        "data.json", {"$ref": "./schema.js", "properties": {"greet": {"$ref": "file:./schema.js"}}}
    )
    project.put(
        "a.html",
        '<html><script src="evil.js"></script><script>const x = require("./evil"); x.y</script></html>\n',
    )
    project.put(
        "a.css",
        '@import "evil.js";\n@plugin "./evil.js";\n@config "./tailwind.config.js";\na { color: red }\n',
    )
    project.put("a.scss", '@use "evil";\n$x: 1;\n')


def _c(project: CanaryProject) -> None:
    library = project.root / "evil.so"
    source = project.put(
        "evil.c",
        f'#include <stdlib.h>\n__attribute__((constructor)) void sing(void) {{ system("echo evil.so >> {project.ran}"); }}\n',
    )
    if compiler := shutil.which("gcc") or shutil.which("cc"):
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    flags = [
        f"-fplugin={library}",
        "-Xclang",
        "-load",
        "-Xclang",
        str(library),
        "-Xclang",
        "-add-plugin",
        "-Xclang",
        "evil",
    ]
    flags += [
        f"-fpass-plugin={library}",
        "-wrapper",
        f"{project.root}/gcc",
        f"-B{project.root}",
        "-no-integrated-as",
    ]
    commands = [
        {
            "directory": str(project.root),
            "file": "a.cpp",
            "arguments": [f"{project.root}/{driver}", *flags, "-c", "a.cpp"],
        }
        for driver in ("gcc", "clang++", "g++")
    ]
    project.put_json("compile_commands.json", commands)
    project.put(
        ".clangd",
        f"CompileFlags:\n  Compiler: {project.root}/g++\n  Add: [{', '.join(json.dumps(one) for one in flags)}]\n"
        f"  CompilationDatabase: .\nIndex:\n  Background: Build\nDiagnostics:\n  ClangTidy:\n    Add: '*'\n",
    )
    project.put(".clang-tidy", f"Checks: '*'\nExtraArgs: ['-fplugin={library}']\n")
    project.put("compile_flags.txt", "\n".join(flags))
    project.put("a.cpp", '#include "a.h"\nint greet(int x) { return x; }\nint y = greet("a");\n')
    project.put("a.h", "int greet(int x);\n")


def _lua(project: CanaryProject) -> None:
    third = {"workspace.checkThirdParty": "ApplyInMemory", "workspace.userThirdParty": ["third"]}
    project.put_json(".luarc.json", {**third, "runtime.plugin": "plugin.lua"})
    project.put(
        "third/x/config.lua", f'os.execute("echo config.lua >> {project.ran}") name="x" words={{"greet"}}\n'
    )
    project.put("plugin.lua", f'os.execute("echo plugin.lua >> {project.ran}")\n')
    project.put("a.lua", "local function greet(x) return x end\nreturn greet(1)\n")
    project.put("a.sh", "#!/bin/bash\nsource ./evil.sh\ngreet() { echo $1; }\ngreet\n")
    project.put("evil.sh", f"echo evil.sh >> {project.ran}\n")
    project.put(".shellcheckrc", "external-sources=true\nsource-path=SCRIPTDIR\n")


def _settings(project: CanaryProject) -> None:
    evil = f"{project.root}/evil/bin"
    settings = {
        **{f"{name}.path": f"{evil}/{name}" for name in ("ty", "ruff", "clangd", "eslint", "prettier")},
        "python.defaultInterpreterPath": f"{evil}/python",
        "python.pythonPath": f"{evil}/python",
        "ty.interpreter": [f"{evil}/python"],
        "ruff.interpreter": [f"{evil}/python"],
        "typescript.tsdk": "node_modules/typescript/lib",
        "clangd.arguments": ["--query-driver=/**"],
        "bashIde.shellcheckPath": f"{evil}/shellcheck",
        "typescript.npm": f"{evil}/npm",
        "Lua.runtime.plugin": "plugin.lua",
        "yaml.schemas": {"./schema.js": "*"},
        "css.customData": ["./data.js"],
        "html.customData": ["./data.js"],
    }
    for name in (".vscode/settings.json", ".zed/settings.json", "x.code-workspace"):
        project.put_json(name, settings)
    variables = {
        "PATH": evil,
        "NODE_OPTIONS": f"--require {project.root}/evil.js",
        "LD_PRELOAD": f"{project.root}/evil.so",
    }
    variables |= {
        "PYTHONSTARTUP": f"{project.root}/evil.py",
        "PYTHONPATH": str(project.root),
        "BASH_ENV": f"{project.root}/evil.sh",
    }
    for name in (".env", ".env.local", ".flaskenv"):
        project.put(name, "".join(f"{key}={value}\n" for key, value in variables.items()))
    project.put(".envrc", f"echo .envrc >> {project.ran}\n")
    names = ("nodejs", "node", "python", "ruby", "golang", "shellcheck")
    project.put(".tool-versions", "".join(f"{name} path:{project.root}/evil\n" for name in names))
    project.put("mise.toml", f'[env]\n_.source = "./evil.sh"\n[tools]\nnode = "path:{project.root}/evil"\n')
    for name, text in {
        ".python-version": "../../evil\n",
        ".node-version": "./evil\n",
        ".nvmrc": "./evil\n",
    }.items():
        project.put(name, text)


def _builds(project: CanaryProject) -> None:
    project.put("rust-toolchain.toml", f'[toolchain]\npath = "{project.root}/evil"\n')
    project.put(
        ".cargo/config.toml",
        f'[build]\nrustc = "{project.root}/evil/rustc"\nrustc-wrapper = "{project.root}/evil/rustc"\n',
    )
    project.put(
        ".git/config",
        f"[core]\n\tfsmonitor = {project.root}/gradlew\n\tsshCommand = {project.root}/gradlew\n",
    )
    project.put("Makefile", f"all:\n\techo Makefile >> {project.ran}\n")


def executed_directly() -> Mapping[str, Callable[[CanaryProject], list[str]]]:
    """How to execute one canary of each make, to show that they sing: its name and the command."""
    return {
        "gradlew": lambda project: [str(project.root / "gradlew")],
        "evil.py": lambda project: [sys.executable, "-I", str(project.root / "evil.py")],
        "evil.js": lambda project: [shutil.which("node") or "node", str(project.root / "evil.js")],
    }


def shim(name: str, real: str) -> str:
    """A version manager's program: runs what `.tool-versions` in the folder that it is started in names."""
    return f"""#!/bin/sh
chosen=$(sed -n 's/^[a-z]* path://p' .tool-versions 2>/dev/null | head -n 1)
[ -z "$chosen" ] || exec "$chosen/bin/{name}" "$@"
exec "{real}" "$@"
"""
