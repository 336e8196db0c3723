"""The checkers: compilers and linters that check a project once and end. Pure."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.code_intelligence.kinds.compiled_languages import GOPLS, RUST_ANALYZER
from lm_tools_bridge.code_intelligence.kinds.python import TY
from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import ESLINT, TYPESCRIPT
from lm_tools_bridge.code_intelligence.specification import Check, Package, Role, ServerSpecification

_DIAGNOSTICS: Final[frozenset[Role]] = frozenset({"diagnostics"})

MYPY: Final = ServerSpecification(
    name="mypy",
    languages=TY.languages,
    commands=(("mypy", "--output=json", "--no-pretty", "--no-error-summary"),),
    roles=_DIAGNOSTICS,
    markers=("mypy.ini", ".mypy.ini"),
    needs_marker=True,
    check=Check("mypy", if_no_target=(".",), no_target="Missing target"),
    project_code="plug-ins that its configuration names",
    package=Package("PyPI", ("mypy",)),
)
TSC: Final = ServerSpecification(
    name="tsc",
    languages=TYPESCRIPT.languages,
    commands=(("tsc", "--noEmit", "--pretty", "false"),),
    roles=_DIAGNOSTICS,
    markers=("tsconfig.json",),
    needs_marker=True,
    check=Check("tsc"),
    project_code="its configuration, which can name files to write",
    install="npm install --save-dev typescript",
)
"""Where TypeScript is older than 7, and no server for it is there."""
ESLINT_CHECK: Final = ServerSpecification(
    name="eslint-check",
    languages=ESLINT.languages,
    commands=(("eslint", "--format", "json", "."),),
    roles=_DIAGNOSTICS,
    markers=ESLINT.markers,
    needs_marker=True,
    check=Check("eslint"),
    project_code="its configuration and plug-ins, which are programs",
    install="npm install --save-dev eslint",
)
"""Where ESLint is there, and no server for it."""
CARGO_CHECK: Final = ServerSpecification(
    name="cargo-check",
    languages=RUST_ANALYZER.languages,
    commands=(("cargo", "check", "--workspace", "--all-targets", "--keep-going", "--message-format=json"),),
    roles=_DIAGNOSTICS,
    markers=("Cargo.toml",),
    needs_marker=True,
    check=Check("cargo", stops_at_errors=True),
    project_code=RUST_ANALYZER.project_code,
    install="rustup component add cargo",
)
"""The compiler's own errors: rust-analyzer, unless it starts this itself, knows only some of them."""
GO_VET: Final = ServerSpecification(
    name="go-vet",
    languages=GOPLS.languages,
    commands=(("go", "vet", "./..."),),
    roles=_DIAGNOSTICS,
    markers=("go.mod",),
    needs_marker=True,
    check=Check("go-vet", stops_at_errors=True),
    project_code=GOPLS.project_code,
    install="https://go.dev",
)
"""Where gopls, which has the same checks, is not there."""
