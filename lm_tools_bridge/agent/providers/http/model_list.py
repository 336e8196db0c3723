"""Reads which models a provider has, from its list of models in each dialect. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PATHS: Final[Mapping[str, str]] = {
    "ollama": "/api/tags", "openai": "/models", "anthropic": "/v1/models?limit=1000",
    "gemini": "/models?pageSize=1000",
}  # fmt: skip
"""Dialect -> path of the list; Azure has none of the deployments."""
_MEMBERS: Final[Mapping[str, tuple[str, str]]] = {
    "ollama": ("models", "name"), "openai": ("data", "id"), "anthropic": ("data", "id"),
    "gemini": ("models", "name"),
}  # fmt: skip


def model_names(kind: str, document: Any) -> tuple[str, ...]:
    """The names of the models that can chat, as the provider orders them; empty if it is no such list."""
    entries, name = _MEMBERS[kind]
    values = document.get(entries) if isinstance(document, dict) else None
    models = [model for model in (values if isinstance(values, list) else ()) if isinstance(model, dict)]
    names = [
        model[name].removeprefix("models/") for model in models if _chats(model) and _is_name(model.get(name))
    ]
    return tuple(dict.fromkeys(names))


def _chats(model: Mapping[str, Any]) -> bool:
    """Gemini's list says what each model is for."""
    methods = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()
