"""The language servers for TypeScript, JavaScript, shell and Lua, and for formats of data. Pure."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.code_intelligence.specification import Package, ServerSpecification

_SCRIPTS: Final = {
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact",
}  # fmt: skip
_MARKERS: Final = ("tsconfig.json", "jsconfig.json", "package.json")
_LIBRARIES: Final = (
    *("node_modules", "node_modules/@types", "node_modules/.package-lock.json", "node_modules/.modules.yaml"),
    *("node_modules/.yarn-state.yml", ".pnp.cjs"),
)
_PROJECT: Final = ("tsconfig.json", "jsconfig.json")
_NO_PROJECT: Final = (
    "without tsconfig.json or jsconfig.json it knows only files that it was given and what they import; "
    "a jsconfig.json with {} is enough"
)
_COMPILER: Final = "its TypeScript, and the plug-ins that tsconfig.json names"
"""They load `node_modules/typescript` of the project; TypeScript 7 loads neither another nor plug-ins."""

TYPESCRIPT: Final = ServerSpecification(
    name="typescript",
    languages=_SCRIPTS,
    commands=(("tsc", "--lsp", "--stdio"),),
    markers=_MARKERS,
    project_files=_PROJECT,
    without_project_files=_NO_PROJECT,
    joins_open_files=True,
    uses_by_definition=True,
    libraries=_LIBRARIES,
    ready="first-answer",
    runs_nothing_of_the_project="it is one program, and loads neither plug-ins nor another TypeScript",
    package=Package("npm", ("typescript@7",)),
)
"""The compiler itself, from version 7."""
TYPESCRIPT_LANGUAGE_SERVER: Final = ServerSpecification(
    name="typescript-language-server",
    languages=_SCRIPTS,
    commands=(("typescript-language-server", "--stdio"),),
    markers=_MARKERS,
    project_files=_PROJECT,
    without_project_files=_NO_PROJECT,
    joins_open_files=True,
    uses_by_definition=True,
    libraries=_LIBRARIES,
    options={"disableAutomaticTypingAcquisition": True, "plugins": []},
    ready="progress",
    ready_title="Initializing JS/TS language features",
    grace_s=1.3,
    project_code=_COMPILER,
    package=Package(
        "npm",
        (
            "typescript-language-server",
            "typescript@5",
        ),
    ),
)
VTSLS: Final = ServerSpecification(
    name="vtsls",
    languages=_SCRIPTS,
    commands=(("vtsls", "--stdio"),),
    markers=_MARKERS,
    project_files=_PROJECT,
    without_project_files=_NO_PROJECT,
    joins_open_files=True,
    uses_by_definition=True,
    libraries=_LIBRARIES,
    ready="progress",
    ready_title="Initializing '",
    grace_s=1.3,
    project_code=_COMPILER,
    package=Package("npm", ("@vtsls/language-server",)),
)
ESLINT: Final = ServerSpecification(
    name="eslint",
    languages=_SCRIPTS,
    commands=(("vscode-eslint-language-server", "--stdio"),),
    roles=frozenset({"diagnostics"}),
    markers=(
        *("eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts"),
        *(".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.yml"),
    ),
    needs_marker=True,
    settings={"": {"validate": "on", "run": "onType", "workingDirectory": {"mode": "auto"}}},
    ready="first-answer",
    project_code="its ESLint, with configuration and plug-ins that are programs",
    package=Package("npm", ("vscode-langservers-extracted",)),
)
YAML: Final = ServerSpecification(
    name="yaml",
    is_optional=True,
    languages={".yaml": "yaml", ".yml": "yaml"},
    commands=(("yaml-language-server", "--stdio"),),
    # a comment in a file can name any address as its schema; nobody listens at this proxy
    settings={
        "yaml": {"schemaStore": {"enable": False}, "validate": True},
        "http": {"proxy": "http://127.0.0.1:9", "proxyStrictSSL": True},
    },
    ready="settled",
    runs_nothing_of_the_project="it reads schemas as data, and starts no program",
    package=Package("npm", ("yaml-language-server",)),
)
JSON: Final = ServerSpecification(
    name="json",
    is_optional=True,
    languages={".json": "json", ".jsonc": "jsonc"},
    commands=(("vscode-json-language-server", "--stdio"),),
    # a file names the address of its schema: without this, the server would ask any host that it names
    options={"handledSchemaProtocols": ["file"]},
    settings={"json": {"validate": {"enable": True}}},
    ready="first-answer",
    runs_nothing_of_the_project="it reads schemas as data, and starts no program",
    package=Package("npm", ("vscode-langservers-extracted",)),
)
HTML: Final = ServerSpecification(
    name="html",
    is_optional=True,
    languages={".html": "html", ".htm": "html"},
    commands=(("vscode-html-language-server", "--stdio"),),
    roles=frozenset({"symbols"}),
    ready="first-answer",
    runs_nothing_of_the_project="it parses scripts with a TypeScript of its own, and starts no program",
    package=Package("npm", ("vscode-langservers-extracted",)),
)
CSS: Final = ServerSpecification(
    name="css",
    is_optional=True,
    languages={".css": "css", ".scss": "scss", ".less": "less"},
    commands=(("vscode-css-language-server", "--stdio"),),
    ready="first-answer",
    runs_nothing_of_the_project="it parses only, and starts no program",
    package=Package("npm", ("vscode-langservers-extracted",)),
)
BASH: Final = ServerSpecification(
    name="bash",
    is_optional=True,
    languages={".sh": "shellscript", ".bash": "shellscript"},
    commands=(("bash-language-server", "start"),),
    settings={"bashIde": {"backgroundAnalysisMaxFiles": 2000}},
    ready="settled",
    project_code="the shellcheck that toolchain files such as .tool-versions choose in its folder",
    package=Package("npm", ("bash-language-server",)),
)
LUA: Final = ServerSpecification(
    name="lua",
    languages={".lua": "lua"},
    commands=(("lua-language-server",),),
    settings={"Lua": {"telemetry": {"enable": False}, "workspace": {"checkThirdParty": False}}},
    ready="settled",
    # .luarc.json wins over settings of the client
    project_code="plug-ins, and config.lua of libraries, that .luarc.json names",
    install="https://luals.github.io",
)
