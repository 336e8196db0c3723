"""Reads what a person typed after `lmtb add`, and the names and versions of packages. Pure.

Names reach the command lines of npm, npx, uv and uvx: only what these take for a package is let through, so
that no name is an option, a path, an address or a range of versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from lm_tools_bridge.text.printable import printable

Index = Literal["npm", "pypi"]

# The longest name that npm accepts; those of PyPI and of registries are shorter.
MAX_NAME: Final = 214
_PACKAGE_NAMES: Final = {
    "npm": re.compile(r"(?:@[A-Za-z0-9_][A-Za-z0-9._~-]*/)?[A-Za-z0-9_][A-Za-z0-9._~-]*"),
    "pypi": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"),
}
# Exact versions: `1.x`, `^1.2.3`, `latest` and `1.*` would be another program tomorrow.
_VERSIONS: Final = {
    "npm": re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.-]{1,64})?(?:\+[0-9A-Za-z.-]{1,64})?"),
    "pypi": re.compile(
        r"(?:\d{1,4}!)?\d{1,9}(?:\.\d{1,9}){0,6}(?:(?:a|b|rc)\d{1,9})?(?:\.post\d{1,9})?(?:\.dev\d{1,9})?"
        r"(?:\+[A-Za-z0-9.]{1,64})?"
    ),
}
_REGISTRY_NAME: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*)(?:@([\w.+-]{1,64}))?"
)
# As long as a prefix of tool names may be: clients cut names of tools at 64 characters.
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_DECORATION: Final = re.compile(
    r"^(?:mcp[-_.]server[-_.]|server[-_.]|mcp[-_.])|[-_.](?:mcp[-_.]server|server|mcp)$"
)
_PLAIN_HOSTS: Final = frozenset({"mcp", "www", "api", "server"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is added: a word for programs, a sentence, and what to do."""

    reason: str
    message: str
    next_step: str


@dataclass(frozen=True, slots=True)
class PackageName:
    """A package of an index; no version means the newest."""

    index: Index
    name: str
    version: str = ""

    @property
    def pinned(self) -> str:
        """The package with its version, as npx and uvx take it."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a remote server."""

    url: str


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A `server.json`."""

    path: str


@dataclass(frozen=True, slots=True)
class RegistryName:
    """The full name of a server in a registry; no version means the newest."""

    name: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class SearchWord:
    """A part of a name, to look for in a registry."""

    text: str


ServerOrigin = PackageName | Address | DocumentFile | RegistryName | SearchWord


def parse_origin(text: str) -> ServerOrigin | Refusal:
    """What a person named."""
    index, colon, rest = text.partition(":")
    if colon and index == "npm":
        return parse_package("npm", rest)
    if colon and index == "pypi":
        return parse_package("pypi", rest)
    if "://" in text:
        return _parse_address(text)
    if text.endswith(".json") or text.startswith(("./", "../", "/", "~/")):
        return DocumentFile(text)
    match = _REGISTRY_NAME.fullmatch(text)
    if match is not None and len(match[1]) <= MAX_NAME:
        return RegistryName(match[1], match[2] or "")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        return SearchWord(text)
    return Refusal("unknown_form", f"{printable(text, width=80)!r} names no server", FORMS)


FORMS: Final = "name it as npm:PACKAGE, pypi:PACKAGE, https://ADDRESS, ./server.json or a name of a registry"


def parse_package(index: Index, text: str) -> PackageName | Refusal:
    """A package as `NAME`, `NAME@VERSION` or, of PyPI, `NAME==VERSION`."""
    name, separator, version = text.partition("==") if index == "pypi" and "==" in text else _split_at(text)
    package = package_of(index, name, version)
    if separator and not version and not isinstance(package, Refusal):
        return Refusal("bad_version", f"{index}:{printable(text)} names no version", "leave the end out")
    return package


def package_of(index: Index, name: str, version: str) -> PackageName | Refusal:
    """The package, if its name and version can be nothing else."""
    if len(name) > MAX_NAME or not _PACKAGE_NAMES[index].fullmatch(name):
        text = f"{printable(name, width=80)!r} cannot be the name of a package of {index}"
        return Refusal("bad_name", text, "use the name as the index writes it")
    if version and not _VERSIONS[index].fullmatch(version):
        text = f"{printable(version, width=80)!r} is no exact version of {name}"
        return Refusal("bad_version", text, "name one version, such as 1.2.3, or none for the newest")
    return PackageName(index, name, version)


def _split_at(text: str) -> tuple[str, str, str]:
    """Name, `@` and version; a leading `@` belongs to the name."""
    name, separator, version = text[1:].partition("@")
    return text[:1] + name, separator, version


def _parse_address(text: str) -> Address | Refusal:
    problem = address_problem(text)
    if problem is not None:
        return Refusal("bad_address", f"{printable(text, width=200)} {problem}", "correct the address")
    return Address(text)


def address_problem(text: str) -> str | None:
    """Why a text is no address of a server, as the end of a sentence; None if it is one."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host or not text.isascii() or not text.isprintable():
        return "is no http or https address"
    if " " in text or parts.fragment:
        return "has a blank or a fragment"
    return "has a user name or password in it" if "@" in parts.netloc else None


def namespace_problem(name: str) -> Refusal | None:
    """Why a name cannot be the prefix of a server's tools; None if it can."""
    if _NAMESPACE.fullmatch(name):
        return None
    text = f"{printable(name, width=80)!r} cannot be the name of a server here"
    return Refusal("bad_namespace", text, "use 1 to 40 letters, digits, - and _: --as NAME")


def namespace_for(name: str) -> str:
    """A short name for the tools of a server with this name of a package or of a registry."""
    last = name.rpartition("/")[2]
    short = _DECORATION.sub("", _DECORATION.sub("", last)) or last
    return (re.sub(r"[^A-Za-z0-9_-]+", "-", short).strip("-_") or "server")[:40]


def namespace_for_address(url: str) -> str:
    """A short name for the tools of the server at an address: the host's own word."""
    parts: SplitResult = urlsplit(url)
    labels = [label for label in (parts.hostname or "").split(".") if label not in _PLAIN_HOSTS]
    return namespace_for(labels[0] if labels and not labels[0].isdigit() else "server")
