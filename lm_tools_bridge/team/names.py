"""Names of hosts and offers of a team, and the subjects of their messages on NATS. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SERVICE: Final = "lmtb"
"""The name of the micro service that every host of a team runs."""
HOSTS_BUCKET: Final = "lmtb_hosts"
"""The key-value bucket of entries of hosts."""
ALIVE_BUCKET: Final = "lmtb_alive"
"""The key-value bucket of heartbeats."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CALL_ID: Final = re.compile(r"[0-9a-f]{32}")


class CallSubject(NamedTuple):
    """What the subject of a call says. The server's permissions decide which `caller` a member may name."""

    host: str
    offer: str
    caller: str


def is_token(text: object) -> bool:
    """Whether a text can name a host or an offer: 1 to 64 letters, digits, `_` and `-`."""
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def is_call_id(text: object) -> bool:
    """Whether a text is the id of a call: 32 hexadecimal digits."""
    return isinstance(text, str) and _CALL_ID.fullmatch(text) is not None


def call_subject(to: CallSubject) -> str:
    """The subject on which a call is sent."""
    return f"lmtb.call.{to.host}.{to.offer}.{to.caller}"


def calls_to(host: str) -> str:
    """The subjects of all calls to a host."""
    return f"lmtb.call.{host}.*.*"


def parsed_call(subject: str) -> CallSubject | None:
    """What the subject of a call says; None if it is none."""
    words = subject.split(".")
    if len(words) != 5 or words[:2] != ["lmtb", "call"] or not all(map(is_token, words[2:])):
        return None
    return CallSubject(*words[2:])


def control_subject(host: str, caller: str) -> str:
    """The subject on which a caller confirms, continues and cancels its calls to a host."""
    return f"lmtb.control.{host}.{caller}"


def controls_of(host: str) -> str:
    """The subjects of all control messages to a host."""
    return f"lmtb.control.{host}.*"


def controlling_caller(subject: str) -> str | None:
    """Who sent a control message; None if the subject is none of one."""
    words = subject.split(".")
    valid = len(words) == 4 and words[:2] == ["lmtb", "control"] and all(map(is_token, words[2:]))
    return words[3] if valid else None


def key_subject(bucket: str, key: str) -> str:
    """The subject under which a key of a bucket is stored (as NATS key-value stores name them)."""
    return f"$KV.{bucket}.{key}"


def key_of(bucket: str, subject: str) -> str | None:
    """The key that a subject of a bucket names."""
    prefix = f"$KV.{bucket}."
    return subject[len(prefix) :] if subject.startswith(prefix) else None


def inbox_prefix(caller: str) -> str:
    """The prefix of the subjects on which answers reach a member; its permissions keep others from it."""
    return f"_INBOX_{caller}"
