"""Reads a `server.json`, or the answer of a registry about one server. Pure.

The form is that of the schema of 2025-12-11; the older spelling with underscores is read, too. Everything in
it was written by a stranger: unknown members are ignored, and what has another form is refused as a whole.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from lm_tools_bridge.published_servers.server_names import Refusal
from lm_tools_bridge.text.printable import printable

# The largest description in the public registry has some ten kilobytes.
MAX_BYTES: Final = 1024 * 1024
# Levels of objects: an argument with variables has eight. Deeper ones would only cost recursion.
_MAX_DEPTH: Final = 12
_OFFICIAL: Final = "io.modelcontextprotocol.registry/official"

# Longer than any address or description that a person reads before an answer.
Text = Annotated[str, Meta(max_length=2000)]
Word = Annotated[str, Meta(max_length=300)]


class Input(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An argument, a variable of the environment, a header, or a variable inside of one of these.

    Attributes:
        value: fixed by the publisher; `{name}` in it stands for one of `variables`.
        default: what it is unless the person says otherwise.
        type: of an argument: `positional` or `named`.
    """

    name: Word = ""
    description: Text = ""
    is_required: bool = False
    is_secret: bool = False
    is_repeated: bool = False
    value: Text | None = None
    default: Text | None = None
    choices: Annotated[tuple[Word, ...], Meta(max_length=100)] = ()
    variables: Annotated[dict[Word, Input], Meta(max_length=20)] = {}
    value_hint: Word = ""
    type: Word = ""


# More than any server in the public registry asks for.
Inputs = Annotated[tuple[Input, ...], Meta(max_length=50)]


class Transport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a server is spoken to; a remote one has an address."""

    type: Word = "stdio"
    url: Text = ""
    headers: Inputs = ()
    variables: Annotated[dict[Word, Input], Meta(max_length=20)] = {}


class Package(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One way to run the server on this machine."""

    registry_type: Word
    identifier: Text
    version: Word = ""
    registry_base_url: Text = ""
    runtime_hint: Word = ""
    transport: Transport = Transport()
    runtime_arguments: Inputs = ()
    package_arguments: Inputs = ()
    environment_variables: Inputs = ()


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Where the source is, as the publisher says."""

    url: Text = ""


class ServerDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a publisher says of a server."""

    name: Word
    description: Text = ""
    title: Word = ""
    version: Word = ""
    status: Word = "active"
    repository: Repository = Repository()
    packages: Annotated[tuple[Package, ...], Meta(max_length=20)] = ()
    remotes: Annotated[tuple[Transport, ...], Meta(max_length=20)] = ()


def read_document(content: bytes, place: str) -> ServerDocument | Refusal:
    """The description of a server.

    Args:
        content: a `server.json`, or what a registry answers: the same in `server`, its state in `_meta`.
        place: where it is from, for messages.
    """
    table = decode_object(content, place)
    if isinstance(table, Refusal):
        return table
    return _converted(table, place)


def decode_object(content: bytes, place: str) -> dict[str, Any] | Refusal:
    """The members of a JSON object of a stranger."""
    if len(content) > MAX_BYTES:
        return _invalid(place, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return _invalid(place, "is not JSON")
    return value if isinstance(value, dict) else _invalid(place, "is no JSON object")


def listed_servers(content: bytes, place: str) -> list[ServerDocument] | Refusal:
    """The servers in the answer of a registry's search; those that cannot be read are left out."""
    table = decode_object(content, place)
    if isinstance(table, Refusal):
        return table
    servers = table.get("servers")
    rows = servers if isinstance(servers, list) else []
    documents = [_converted(row, place) for row in rows if isinstance(row, dict)]
    return [document for document in documents if isinstance(document, ServerDocument)]


def _converted(table: dict[str, Any], place: str) -> ServerDocument | Refusal:
    server = table.get("server")
    members = _respelt(server if isinstance(server, dict) else table, 0)
    detail = members.pop("versionDetail", None)
    if isinstance(detail, dict):
        members.setdefault("version", detail.get("version"))
    status = _official_status(table)
    if status:
        members["status"] = status
    try:
        document = msgspec.convert(members, ServerDocument)
    except (msgspec.ValidationError, RecursionError) as error:
        return _invalid(place, f"does not describe a server: {printable(error, width=200)}")
    return document if document.name else _invalid(place, "does not name a server")


def _official_status(table: dict[str, Any]) -> str:
    """The state that the registry itself tells, outside of what the publisher wrote."""
    meta = table.get("_meta")
    official = meta.get(_OFFICIAL) if isinstance(meta, dict) else None
    status = official.get("status") if isinstance(official, dict) else None
    return status if isinstance(status, str) else ""


def _respelt(value: Any, depth: int) -> Any:
    """The same value with today's spelling of its members, and without those that are null."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_respelt(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    members: dict[str, Any] = {}
    for key, member in value.items():
        if member is None or key == "_meta":
            continue
        name = _camel(key)
        if name == "variables" and isinstance(member, dict):
            members[name] = {variable: _respelt(text, depth + 2) or {} for variable, text in member.items()}
        else:
            members["type" if name == "transportType" else name] = _respelt(member, depth + 1)
    return members


def _camel(key: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), key) if len(key) < MAX_KEY else key


# Characters of a member that may be one of ours; the longest has 20.
MAX_KEY: Final = 100


def _invalid(place: str, problem: str) -> Refusal:
    return Refusal("bad_description", f"{printable(place, width=200)} {problem}", "ask its publisher")
