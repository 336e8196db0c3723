"""Makes the entry of `workspace.toml` for a published server, and says what it needs. Pure.

The program is chosen here, never by the publisher: `npx -y PACKAGE@VERSION` or `uvx PACKAGE@VERSION`, with
the publisher's arguments behind it, where npx and uvx read none of their own. What could start something
else, reach services of this machine, or read variables of the user is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from lm_tools_bridge.published_servers.server_document import Input, Package, ServerDocument, Transport
from lm_tools_bridge.published_servers.server_names import (
    Address,
    Index,
    PackageName,
    Refusal,
    address_problem,
    package_of,
)
from lm_tools_bridge.text.printable import printable

Kind = Literal["stdio_servers", "remote_servers"]
Place = Literal["argument", "variable", "header"]

_RUNNERS: Final[Mapping[Index, tuple[str, ...]]] = {"npm": ("npx", "-y"), "pypi": ("uvx",)}
_INDEX_ADDRESSES: Final[Mapping[str, frozenset[str]]] = {
    "npm": frozenset({"", "https://registry.npmjs.org"}),
    "pypi": frozenset({"", "https://pypi.org", "https://pypi.org/simple"}),
}
_INDEXES: Final[Mapping[str, Index]] = {"npm": "npm", "pypi": "pypi"}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Variables that decide what npx, uvx and interpreters load, and from where.
_STEERS_PROGRAMS: Final = re.compile(
    r"(?:PATH|HOME|SHELL|ENV|BASH_ENV|IFS|PYTHON.*|(?:LD|DYLD|GIT|NODE|NPM|NPX|UV|PIP|LMTB|XDG)_.*)",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
# Headers that a client of MCP sets itself.
_OUR_HEADERS: Final = re.compile(
    r"(?:host|connection|content-.*|transfer-encoding|upgrade|te|trailer|accept.*|mcp-.*|proxy-.*)",
    re.IGNORECASE,
)
_TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")
_TRANSPORTS: Final = {"streamable-http": "http", "streamable": "http", "http": "http", "sse": "sse"}
_LOCAL_ENDINGS: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Need:
    """A value that a person has to give, or may. Needs of equal names share it.

    Attributes:
        secret: the name under which the secret store has it; empty for what is no secret.
    """

    name: str
    description: str = ""
    is_required: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    secret: str = ""

    def problem_of(self, value: str) -> str | None:
        """Why a value cannot be used, as the end of a sentence."""
        if self.choices and value not in self.choices:
            return f"has to be one of {', '.join(self.choices)}"
        return None if value.isprintable() else "has control characters"


@dataclass(frozen=True, slots=True)
class Part:
    """An argument, a variable or a header: fixed texts and needs, one after the other."""

    place: Place
    name: str
    pieces: tuple[str | Need, ...]

    @property
    def needs(self) -> Iterator[Need]:
        """What it needs."""
        return (piece for piece in self.pieces if isinstance(piece, Need))

    @property
    def secret(self) -> str:
        """The name of the secret that it is or ends with; empty if it has none."""
        return next((need.secret for need in self.needs if need.secret), "")

    def is_given(self, answers: Mapping[str, str]) -> bool:
        """Whether it has all values; else it is left out. A secret has one if its need is among the names."""
        return all(need.name in answers for need in self.needs)

    def text(self, answers: Mapping[str, str]) -> str:
        """What it becomes with values for all its needs."""
        return "".join(answers[piece.name] if isinstance(piece, Need) else piece for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A server that can be added.

    Attributes:
        command: what starts it, before its arguments; empty for a remote server.
        address: of a remote server.
        package: what the command runs.
        document: what the publisher says; None if only a package or an address was named.
    """

    namespace: str
    command: tuple[str, ...] = ()
    address: Part | None = None
    transport: str = ""
    parts: tuple[Part, ...] = ()
    package: PackageName | None = None
    document: ServerDocument | None = None

    @property
    def kind(self) -> Kind:
        """The table of `workspace.toml` that it belongs to."""
        return "remote_servers" if self.address is not None else "stdio_servers"

    @property
    def needs(self) -> tuple[Need, ...]:
        """Everything that a person may give, each once; what one part requires is required."""
        parts = [*([self.address] if self.address is not None else []), *self.parts]
        needs: dict[str, Need] = {}
        for need in (need for part in parts for need in part.needs):
            if need.name not in needs or need.is_required:
                needs[need.name] = need
        return tuple(needs.values())

    def exported(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """The variables that the person has to export, for headers whose secrets no store can give."""
        headers = (part for part in self.parts if _is_exported(part) and part.is_given(answers))
        return tuple(_exported(self.namespace, part.name) for part in headers)

    def stored(self, answers: Mapping[str, str]) -> dict[str, str]:
        """The names of needs -> the names under which the secret store has to have them."""
        parts = [part for part in self.parts if part.is_given(answers) and not _is_exported(part)]
        return {need.name: need.secret for part in parts for need in part.needs if need.secret}

    def entry(self, answers: Mapping[str, str]) -> dict[str, Any]:
        """The entry with these values by the names of needs; secrets are named, never contained."""
        entry: dict[str, Any] = {"namespace": self.namespace}
        if self.address is None:
            entry["command"] = [*self.command, *self._arguments(answers)]
            return entry | self._variables(answers)
        entry["url"] = self.address.text({name: quote(value, safe="") for name, value in answers.items()})
        if self.transport == "sse":
            entry["transport"] = "sse"
        return entry | self._credentials(answers)

    def _of_place(self, place: Place) -> Iterator[Part]:
        return (part for part in self.parts if part.place == place)

    def _arguments(self, answers: Mapping[str, str]) -> Iterator[str]:
        for part in self._of_place("argument"):
            if part.is_given(answers):
                yield from filter(None, (part.name, part.text(answers)))

    def _variables(self, answers: Mapping[str, str]) -> dict[str, Any]:
        parts = [part for part in self._of_place("variable") if part.is_given(answers)]
        variables = {part.name: part.text(answers) for part in parts if not part.secret}
        secrets = {part.name: part.secret for part in parts if part.secret}
        return ({"env": variables} if variables else {}) | ({"env_secrets": secrets} if secrets else {})

    def _credentials(self, answers: Mapping[str, str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        headers: dict[str, str] = {}
        for part in self._of_place("header"):
            if not part.is_given(answers):
                continue
            if _is_exported(part):
                headers[part.name] = f"${{{_exported(self.namespace, part.name)}}}"
            elif part.secret:
                members["token_secret"] = part.secret
            else:
                headers[part.name] = part.text(answers)
        return members | ({"headers": headers} if headers else {})


def _is_exported(part: Part) -> bool:
    """Whether it is a header with a secret that is no bearer token: entries take those from variables."""
    return part.place == "header" and bool(part.secret) and part.name.lower() != "authorization"


def _exported(namespace: str, header: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", f"{namespace}_{header}".upper())


class _Unfit(Exception):
    """Why a package or an address is left out, as the end of a sentence."""


def propose_package(package: PackageName, namespace: str) -> Proposal:
    """The entry of a package that a person named, at its version."""
    return Proposal(namespace, _command(package), package=package)


def propose_address(address: Address, namespace: str) -> Proposal:
    """The entry of an address that a person named."""
    return Proposal(namespace, address=Part("argument", "", (address.url,)))


def propose(
    document: ServerDocument, namespace: str, *, is_remote: bool = False
) -> tuple[Proposal | None, list[Refusal]]:
    """The first way of running a published server that is safe to write, and why others before it are not.

    Args:
        document: what its publisher says.
        namespace: the name of the entry.
        is_remote: whether only its addresses count; else its packages come first.
    """
    refusals: list[Refusal] = []
    packages = () if is_remote else document.packages
    ways: Sequence[Package | Transport] = (*packages, *document.remotes)
    for way in ways:
        try:
            if isinstance(way, Package):
                return _from_package(document, way, namespace), refusals
            return _from_remote(document, way, namespace), refusals
        except _Unfit as reason:
            refusals.append(Refusal("unsafe_server", f"{_called(way)} {reason}", _BY_HAND))
    return None, refusals


_BY_HAND: Final = "look at what it would run; you can write its entry by hand into workspace.toml"


def _called(way: Package | Transport) -> str:
    if isinstance(way, Package):
        return f"the {printable(way.registry_type, width=20)} package {printable(way.identifier, width=100)}"
    return f"the address {printable(way.url, width=100)}"


def _command(package: PackageName) -> tuple[str, ...]:
    return (*_RUNNERS[package.index], package.pinned)


def _from_package(document: ServerDocument, way: Package, namespace: str) -> Proposal:
    package = _package_name(way)
    allowed = {"-y", "--yes"} if package.index == "npm" else set()
    for option in way.runtime_arguments:
        if option.name + (option.value or "") not in allowed:
            what = printable(" ".join(filter(None, (option.name, option.value))), width=80)
            raise _Unfit(f"wants the option {what!r} of {_RUNNERS[package.index][0]}, which can run anything")
    arguments = [_part("argument", part, namespace) for part in way.package_arguments]
    variables = [_part("variable", part, namespace) for part in way.environment_variables]
    parts = (*arguments, *variables)
    return Proposal(namespace, _command(package), parts=parts, package=package, document=document)


def _package_name(way: Package) -> PackageName:
    index = _INDEXES.get(way.registry_type)
    if index is None:
        raise _Unfit("is not from npm or PyPI, and nothing else is pinned and started here")
    if way.transport.type != "stdio":
        raise _Unfit("opens a port of its own; only servers on standard input and output are started")
    if way.registry_base_url.rstrip("/") not in _INDEX_ADDRESSES[index]:
        raise _Unfit(f"comes from {printable(way.registry_base_url, width=100)}, not from the usual index")
    package = package_of(index, way.identifier, way.version)
    if isinstance(package, Refusal):
        raise _Unfit(f"cannot be named: {package.message}")
    if not package.version:
        raise _Unfit("names no version, so that it could be another program tomorrow")
    return package


def _from_remote(document: ServerDocument, way: Transport, namespace: str) -> Proposal:
    transport = _TRANSPORTS.get(way.type)
    if transport is None:
        raise _Unfit(f"is spoken to by {printable(way.type, width=40)!r}, which is not known here")
    pieces = tuple(_pieces(way.url, way.variables, namespace))
    example = "".join(piece if isinstance(piece, str) else "x" for piece in pieces)
    problem = address_problem(example) or _unreachable(example)
    if problem is not None:
        raise _Unfit(problem)
    if any(isinstance(piece, Need) and piece.secret for piece in pieces):
        raise _Unfit("has a secret in it, which logs of others would keep")
    parts = tuple(_part("header", header, namespace) for header in way.headers)
    address = Part("argument", "", pieces)
    return Proposal(namespace, address=address, transport=transport, parts=parts, document=document)


def _unreachable(url: str) -> str | None:
    """Why a stranger may not send us to an address; a person may name any."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "https":
        return "is not encrypted"
    if ("." not in host and ":" not in host) or host.endswith(_LOCAL_ENDINGS) or host == "localhost":
        return "is a name of this machine or of its network"
    if _NUMBER.fullmatch(host) or ":" in host:
        try:
            is_public = ipaddress.ip_address(host).is_global
        except ValueError:
            return "is a number that can be read in several ways"
        return None if is_public else "is an address of this machine or of its network"
    return None


def _part(place: Place, described: Input, namespace: str) -> Part:
    """A part of an entry as a publisher describes it."""
    name = described.name if place != "argument" or described.type != "positional" else ""
    _check_name(place, name)
    if described.value is None:
        part = Part(place, name, (_need(described, name or described.value_hint or "argument", namespace),))
    else:
        part = Part(place, name, tuple(_pieces(described.value, described.variables, namespace)))
    if part.secret:
        _check_secret(part)
    return part


def _check_name(place: Place, name: str) -> None:
    _check_text(name)
    if place == "variable" and (not _VARIABLE.fullmatch(name) or _STEERS_PROGRAMS.fullmatch(name)):
        raise _Unfit(f"sets the variable {printable(name, width=40)!r}, which decides what programs load")
    if place == "header" and (not _HEADER.fullmatch(name) or _OUR_HEADERS.fullmatch(name)):
        raise _Unfit(f"sets the header {printable(name, width=40)!r}")


def _check_secret(part: Part) -> None:
    if part.place == "argument":
        raise _Unfit("takes a secret as an argument, which all users of this machine can read")
    texts = "".join(piece for piece in part.pieces if isinstance(piece, str)).strip().lower()
    is_bearer = part.place == "header" and part.name.lower() == "authorization" and texts == "bearer"
    if len([*part.needs]) > 1 or (texts and not is_bearer):
        raise _Unfit(f"joins a secret with other text in {printable(part.name, width=40)}")


def _pieces(template: str, variables: Mapping[str, Input], namespace: str) -> Iterator[str | Need]:
    """The fixed texts and the needs of a template; what is in braces and no variable is fixed text."""
    _check_text(template)
    end = 0
    for match in _TEMPLATE.finditer(template):
        described = variables.get(match[1])
        if described is None:
            continue
        yield from filter(None, (template[end : match.start()],))
        if described.value is not None:
            _check_variable(described.value)
            yield described.value
        else:
            yield _need(described, match[1], namespace)
        end = match.end()
    yield from filter(None, (template[end:],))


def _need(described: Input, name: str, namespace: str) -> Need:
    _check_text(name)
    for text in (described.default or "", *described.choices):
        _check_variable(text)
    secret = re.sub(r"[^A-Za-z0-9._-]", "_", f"{namespace}.{name.lstrip('-')}")[:128]
    return Need(
        name,
        described.description,
        described.is_required,
        None if described.is_secret else described.default,
        described.choices,
        secret if described.is_secret else "",
    )


def _check_variable(text: str) -> None:
    """Text that is put beside other text, with which a `$` could become a placeholder."""
    _check_text(text.replace("$", "${"))


def _check_text(text: str) -> None:
    """Text of a stranger that is written: no placeholder, which would be given a value of the user's."""
    if "${" in text:
        raise _Unfit(f"reads your variables: {printable(text, width=80)}")
    if not text.isprintable():
        raise _Unfit("has control characters")
