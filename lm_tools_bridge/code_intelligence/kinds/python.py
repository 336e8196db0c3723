"""The language servers for Python. Pure."""

from __future__ import annotations

from typing import Any, Final

from lm_tools_bridge.code_intelligence.specification import Package, ServerSpecification

_LANGUAGES: Final = {".py": "python", ".pyi": "python"}
_MARKERS: Final = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
_LIBRARIES: Final = tuple(
    f"{folder}/{inner}"
    for folder in (".venv", "venv")
    for inner in ("pyvenv.cfg", "lib/python3*/site-packages", "Lib/site-packages")
)
_INTERPRETER: Final = "the Python of its virtual environment"
"""They run the `.venv/bin/python` of the project, to ask it for its paths. ty and ruff do not."""
_WHOLE_PROJECT: Final[dict[str, Any]] = {"analysis": {"diagnosticMode": "workspace", "autoSearchPaths": True}}
"""As the command line: it checks the whole project, and finds packages below `src`."""

TY: Final = ServerSpecification(
    name="ty",
    languages=_LANGUAGES,
    commands=(("ty", "server"),),
    markers=_MARKERS,
    libraries=_LIBRARIES,
    misreads_encodings=True,
    options={"diagnosticMode": "workspace"},
    settings={"ty": {"diagnosticMode": "workspace"}},
    ready="first-answer",
    holds_empty_reports=True,
    runs_nothing_of_the_project="it reads virtual environments as files, and has no plug-ins",
    caches=("ty",),
    package=Package("PyPI", ("ty",)),
)
BASEDPYRIGHT: Final = ServerSpecification(
    name="basedpyright",
    languages=_LANGUAGES,
    commands=(("basedpyright-langserver", "--stdio"),),
    markers=_MARKERS,
    libraries=_LIBRARIES,
    misreads_encodings=True,
    settings={"basedpyright": _WHOLE_PROJECT, "python": _WHOLE_PROJECT},
    ready="log-message",
    ready_title="Found ",
    grace_s=1.0,
    project_code=_INTERPRETER,
    package=Package("PyPI", ("basedpyright",)),
)
PYRIGHT: Final = ServerSpecification(
    name="pyright",
    languages=_LANGUAGES,
    commands=(("pyright-langserver", "--stdio"),),
    markers=_MARKERS,
    libraries=_LIBRARIES,
    misreads_encodings=True,
    settings={"python": _WHOLE_PROJECT},
    ready="log-message",
    ready_title="Found ",
    grace_s=1.0,
    # without an environment it starts `python3` there; shims of version managers look at that folder
    project_code="the Python of its environment, or the one that files such as .python-version choose",
    package=Package("npm", ("pyright",)),
)
PYREFLY: Final = ServerSpecification(
    name="pyrefly",
    languages=_LANGUAGES,
    commands=(("pyrefly", "lsp"),),
    # its references stay those of the files as they were
    roles=frozenset({"diagnostics"}),
    markers=_MARKERS,
    libraries=_LIBRARIES,
    options={"pyrefly": {"displayTypeErrors": "force-on"}},
    settings={"python": {"pyrefly": {"displayTypeErrors": "force-on"}}},
    ready="settled",
    project_code=_INTERPRETER,
    package=Package("PyPI", ("pyrefly",)),
)
RUFF: Final = ServerSpecification(
    name="ruff",
    languages=_LANGUAGES,
    commands=(("ruff", "server"),),
    roles=frozenset({"diagnostics"}),
    markers=_MARKERS,
    ready="first-answer",
    runs_nothing_of_the_project="its rules are compiled in, and it has no plug-ins",
    package=Package("PyPI", ("ruff",)),
)
