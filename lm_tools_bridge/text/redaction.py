"""Hides secrets in log lines, messages and recorded contents: by names, known values, and looks. Pure.

A secret that looks like an ordinary word is not recognised; `docs/calls.md` says so.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

import msgspec

HIDDEN: Final = "[hidden]"
"""Stands in the place of a secret."""
_SHORTEST_SECRET: Final = 6
"""Characters of a value; shorter ones are too common to be secrets."""
# Shorter lines of a secret of several lines stand in ordinary text: hiding them would hide that.
_SHORTEST_LINE: Final = 8
_SECRET_NAME: Final = re.compile(
    r"(?i)pass(word|phrase|wd)|pass$|[a-z0-9]_pwd$|secret|token|(api|private|access|account|signing|master|encryption)[_-]?key"
    r"|authorization|credential|cookie|nonce"
)
_values: Final[set[str]] = set()


def is_secret_name(name: str) -> bool:
    """Whether the name of a member, variable or header says that its value is confidential."""
    return _SECRET_NAME.search(name) is not None


def redacted(value: Any) -> Any:
    """A JSON value in which the members with the name of a secret are hidden."""
    if isinstance(value, dict):
        return {key: HIDDEN if is_secret_name(key) else redacted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    return value


def hide(*values: str) -> None:
    """Mask these values in every line from now on, unless they are too short to be secrets."""
    for value in values:
        _values.update(_forms(value))


def hide_members(members: Mapping[str, str]) -> None:
    """`hide` the values of the members with the name of a secret."""
    hide(*(value for name, value in members.items() if is_secret_name(name)))


def mask(text: str, values: Iterable[str] = ()) -> str:
    """`text` with every hidden value, and with these values, replaced."""
    secrets = _values.union(*(_forms(value) for value in values))
    for value in sorted(secrets, key=len, reverse=True):  # a secret may begin with another
        text = text.replace(value, HIDDEN)
    return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a line: whole, one of its own lines, quoted in JSON or in an address."""
    pieces = {value, *(line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)}
    forms = {form for piece in pieces for form in (piece, *_quoted(piece))}
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}


def _quoted(text: str) -> tuple[str, str, str, str]:
    in_json = msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]
    return *in_json, quote(text), quote(text, safe="")


MAX_TEXT: Final = 256 * 1024
"""Longest text in characters that is searched; a longer one is stored without its rest."""
# Shorter words of letters and digits are mostly names; the three figures together decide what is a token.
_SHORTEST: Final = 20
_LEAST_BITS: Final = 3.5
"""Entropy in bits for each character from which a mixed word is taken for a token."""
_LEAST_CHANGES: Final = 0.4
"""Changes between upper case, lower case and digits for each character; names in camel case have fewer."""
_KINDS: Final = (str.isupper, str.islower, str.isdigit)
_SHORTEST_HEX: Final = 32
"""Digits from which a hexadecimal number is taken for a key."""
_NAMES_OF_OBJECTS: Final = frozenset({40, 64})
"""Lengths of git's object names, which are hexadecimal and no secrets."""
# The patterns below are texts, which `re` compiles and keeps when the first content is recorded. Most
# managers record none, and compiling them takes a twentieth of the start.
_START: Final = r"(?<![A-Za-z0-9])"
"""Else the key `sk-…` would be seen in `task-…`."""
_KNOWN: Final = (
    _START + r"(?:sk-|sk_live_|sk_test_|rk_live_|whsec_|gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|soat)-"
    r"|xox[abeposr]-|xapp-|AKIA|ASIA|AIza|ya29\.|GOCSPX-|1//0|npm_|pypi-|rubygems_|lmtb_|hf_|do[por]_v1_"
    r"|dckr_pat_|SG\.|hv[sbr]\.|AGE-SECRET-KEY-|shp(?:at|ss|ca|pa)_|ATATT|ATCTT|lin_api_|ntn_|PMAK-|HRKU-|dapi"
    r"|glsa_|glc_|dp\.(?:pt|st|sa|ct)\.|NRAK-|sntry[su]_|figd_|gsk_|xai-|pplx-|r8_|sbp_|pscale_tkn_|fo1_"
    r"|sq0(?:atp|csp)-|tskey-|ops_eyJ|key-|SK(?=[0-9a-f]{32})|eyJ[A-Za-z0-9_-]{8,}\.)[A-Za-z0-9_\-.]{8,}"
)
"""Beginnings by which providers mark their keys."""
_PRIVATE_KEY: Final = (
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_BY_PLACE: Final = (
    r"(?<=://)(?P<secret>[^\s/@:\"'<>]*:[^\s/\"'<>]+)(?=@)",
    r"(?i)\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9+/=_\-.~]{8,})",
    r"(?im)^[ \t]*(?:[<>] )?(?:set-)?cookie:[ \t]*(?P<secret>\S[^\r\n]*)",
    r"(?i)[?&](?:sig|signature|x-amz-signature|x-goog-signature)=(?P<secret>[^&\s\"']+)",
    r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{16,})",
    r"/api/webhooks/\d+/(?P<secret>[A-Za-z0-9_\-]{16,})",
    r"(?<![0-9A-Za-z])(?P<secret>\d{8,10}:AA[A-Za-z0-9_\-]{33})(?![A-Za-z0-9_\-])",  # a bot of Telegram
    r"(?<![\w.\-])(?P<secret>[MNO][\w\-]{23,27}\.[\w\-]{6}\.[\w\-]{27,})",  # a bot of Discord
    # hashes of passwords
    r"(?P<secret>\$(?:1|2[aby]|5|6|y|7|apr1|argon2(?:id?|d)|scrypt)\$[^\s:\"']{20,})",
    # files: ~/.netrc, ~/.pgpass
    r"\blogin\s+\S+\s+(?:account\s+\S+\s+)?password\s+(?P<secret>\S+)",
    r"(?m)^[\w.*\-]+:(?:\d{2,5}|\*):[^:\s]+:[^:\s]+:(?P<secret>\S+)$",
    # options of programs that mean a password nowhere else
    r"\bsshpass\s+-p\s*(?P<secret>\S+)",
    r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]{0,200}?\s-p(?P<secret>[^\s\"']+)",
    r"\b(?:docker|podman|helm)\s[^\n|;]{0,100}?login\b[^\n|;]{0,200}?\s-p\s+(?P<secret>\S+)",
    r"\bredis-cli\b[^\n|;]{0,200}?\s-a\s+(?P<secret>\S+)",
    r"(?<![\w/])pass:(?P<secret>[^\s\"':]{4,})",
)
"""What is a secret because of where it stands: the group `secret`."""
_USER_AND_PASSWORD: Final = (
    r"(?<!\S)(?:-u|--user|--proxy-user|-U)(?:\s+|=)[\"']?(?P<user>[^\s:\"'/]+):(?P<secret>[^\s\"']+)"  # noqa: S105  a pattern
)
_USER_OPTIONS: Final = frozenset({"-u", "--user", "--proxy-user", "-U"})
_OPTION: Final = (
    r"(?<![\w\-])--?(?P<name>[A-Za-z][\w\-]{2,40})(?:=|\s+)(?P<secret>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'|;&]+)"
)
_NO_SECRET_OPTION: Final = (
    r"(?i)(?:file|path|dir|stdin|env|name|id|url|uri|ttl|limit|type|count|length|size|expiry|prompt|tokens)$"  # noqa: S105  a pattern
)
"""Options whose names have the word of a secret and whose values are none."""
_PROSE: Final = (
    r"(?i)(?:an?|and|arguments?|as|at|can|for|from|if|in|is|may|must|of|on|options?|or|parameter|that|the|then|this"
    r"|to|value|was|when|where|which|will|with|flag)[.,:;)]?"
)
"""Words that follow the name of an option in a sentence."""
_ASSIGNED: Final = (
    r"""([A-Za-z_][A-Za-z0-9_-]{2,40})(["']?\s*[=:]\s*)"""
    r"""("[^"\n]{1,400}"|'[^'\n]{1,400}'|["']?[^\s"',;&]{6,})"""
)
_VARIABLE: Final = r"""(?<![A-Za-z0-9_\-])([A-Z][A-Z0-9_]{2,60})(=)([^\s"'`;&|$][^\s"'`;&|]*)"""
"""A line of an environment file: its value is a secret however short it is."""
_NAME_ENDS: Final = r"(?i)(?:pass|password|passwd|passphrase|pwd|secret|token|key|credentials?)$"
_REFERENCE: Final = r"\$[({]|\$[A-Za-z_]\w*\Z|<[\w-]+>"
"""What stands for a secret that is elsewhere: `$NAME`, `${NAME}`, `$(command)`, `<password>`."""
_MEMBER: Final = r'"([^"\\]{1,80})"\s*:\s*"((?:[^"\\]|\\.)*)"?'
_LONE_KEY: Final = r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])"
"""A secret key of AWS, which may have a slash in it."""
_MOST_SLASHES: Final = 3
"""In 40 random characters; a path has more."""
_MOST_DIGITS: Final = 1_000
"""Python refuses to read numbers of more than 4,300 digits."""
_OF_NUMBERS: Final = r"(?i)pass|secret"
"""Names whose numbers are secrets, too."""
_WORD: Final = rf"[A-Za-z0-9+_=\-]{{{_SHORTEST},}}"


class Redactor:
    """Hides secrets, and counts them.

    Args:
        keys: names of further members whose values are hidden, in any case.

    Attributes:
        hidden: how many values were hidden so far.
    """

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._keys = frozenset(key.lower() for key in keys)
        self.hidden = 0

    def json_text(self, text: str) -> str:
        """A JSON text without its secrets. What is no JSON is treated as plain text."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        try:
            return json.dumps(self.value(value), ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            return self.text(text)

    def value(self, value: Any) -> Any:
        """A JSON value without its secrets."""
        if isinstance(value, dict):
            return {
                self.text(key): self._hide() if self._is_secret(key, inner) else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self._item(before, inner) for before, inner in zip([None, *value], value, strict=False)]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """A text without the words that are, or look like, secrets."""
        text = self._count_hidden(mask(text[:MAX_TEXT]), text)
        text = re.sub(_PRIVATE_KEY, lambda _: self._hide(), text)
        for pattern in _BY_PLACE:
            text = re.sub(pattern, self._secret_part, text)
        text = re.sub(_USER_AND_PASSWORD, self._password_part, text)
        text = re.sub(_OPTION, self._option_part, text)
        text = re.sub(_MEMBER, self._member, text)
        text = re.sub(_ASSIGNED, self._assigned, text)
        text = re.sub(_VARIABLE, self._assigned, text)
        text = re.sub(_KNOWN, lambda _: self._hide(), text)
        text = re.sub(_LONE_KEY, lambda match: self._hide() if _is_lone_key(match[0]) else match[0], text)
        return re.sub(_WORD, lambda match: self._hide() if looks_random(match[0]) else match[0], text)

    def counted_text(self, text: str) -> tuple[str, int]:
        """The same, and how many values were hidden in it."""
        before = self.hidden
        visible = self.text(text)
        return visible, max(self.hidden - before, int(visible != text))

    def _member(self, match: re.Match[str]) -> str:
        """A member in a JSON text that is no longer whole, or within another text."""
        if not self._is_secret(match[1], match[2]) or match[2] == HIDDEN:
            return match[0]
        return f'"{match[1]}":"{self._hide()}"'

    def _assigned(self, match: re.Match[str]) -> str:
        """`PASSWORD=…` and `"token": "…"` within a text."""
        name, written = match[1], match[3]
        value = written.strip("\"'")
        if (
            not self._is_secret(name, _number(value))
            or value.startswith(HIDDEN)
            or re.match(_REFERENCE, value)
        ):
            return match[0]
        if " " in value and re.search(_NAME_ENDS, name) is None:
            return match[0]  # a text about a secret, such as a label
        return f"{name}{match[2]}{written.replace(value, self._hide())}"

    def _secret_part(self, match: re.Match[str]) -> str:
        """A match without its group `secret`."""
        if match["secret"].startswith(HIDDEN) or re.match(_REFERENCE, match["secret"]):
            return match[0]
        start, end = match.start("secret") - match.start(), match.end("secret") - match.start()
        return match[0][:start] + self._hide() + match[0][end:]

    def _password_part(self, match: re.Match[str]) -> str:
        """`curl -u user:password`, and not `docker run -u 1000:1000`."""
        is_group = match["secret"].isdigit() or match["secret"] == match["user"]
        return match[0] if is_group else self._secret_part(match)

    def _option_part(self, match: re.Match[str]) -> str:
        """`--password x`, and not `--password-file x` or a sentence about the option."""
        value = match["secret"]
        if (
            value.startswith("-")
            or re.fullmatch(_PROSE, value)
            or not self._names_secret(match["name"], value)
        ):
            return match[0]
        return self._secret_part(match)

    def _names_secret(self, option: str, value: Any) -> bool:
        """Whether the value of an option is hidden."""
        return re.search(_NO_SECRET_OPTION, option) is None and self._is_secret(option, _number(value))

    def _item(self, before: Any, item: Any) -> Any:
        """An item of a list, which may be the value of the option before it, as in the words of a command."""
        if not (isinstance(before, str) and isinstance(item, str)) or item.startswith("-"):
            return self.value(item)
        if before in _USER_OPTIONS and ":" in item:
            return self.text(f"{before} {item}").removeprefix(f"{before} ")
        is_option = before.startswith("-") and " " not in before and "=" not in before
        if is_option and item and self._names_secret(before.lstrip("-"), item):
            return self._hide()
        return self.value(item)

    def _is_secret(self, name: str, value: Any) -> bool:
        """Whether a member is hidden. Flags are no secrets, and few numbers are, as in `"maxTokens": 100`."""
        if name.lower() in self._keys:
            return True
        if isinstance(value, bool) or value in (None, "") or not is_secret_name(name):
            return False
        return not isinstance(value, int | float) or re.search(_OF_NUMBERS, name) is not None

    def _hide(self) -> str:
        self.hidden += 1
        return HIDDEN

    def _count_hidden(self, masked: str, text: str) -> str:
        self.hidden += masked.count(HIDDEN) - text[:MAX_TEXT].count(HIDDEN)
        return masked


def hidden_keys(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas, as in the settings."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _number(text: Any) -> Any:
    """A text as the number that it is, if it is one; one of more digits than Python reads stays a text."""
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else text


def _is_lone_key(word: str) -> bool:
    return word.count("/") <= _MOST_SLASHES and looks_random(word)


def looks_random(word: str) -> bool:
    """Whether a word looks like a generated key: mixed characters of high entropy, or long hexadecimal."""
    if len(word) < _SHORTEST:
        return False
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", word):
        return len(word) >= _SHORTEST_HEX and len(word) not in _NAMES_OF_OBJECTS and not word.isdigit()
    kinds = [next((kind for kind in _KINDS if kind(character)), None) for character in word]
    changes = sum(before is not after for before, after in pairwise(kinds))
    has_all = all(kind in kinds for kind in _KINDS)
    return has_all and changes >= _LEAST_CHANGES * len(word) and _bits(word) >= _LEAST_BITS


def _bits(word: str) -> float:
    """Shannon entropy in bits for each character."""
    size = len(word)
    return -sum(count / size * math.log2(count / size) for count in Counter(word).values())
