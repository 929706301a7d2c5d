"""This module finds values in command lines that look like secrets, so that no session keeps them.

An argument counts by the name of its option (``--hf-token X``, ``api_key=X``), or because it has
the form of a well-known key, or is the password in an address. What has neither is kept:
docs/share/sessions.md says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEFT_OUT = "<left-out>"
"""Text that replaces a secret."""

_NAMES = re.compile(
    "secret|password|passwd|passphrase|passcode|pwd|pat|apikey|credential|credentials|auth"
    "|authorization|bearer|cookie|signature|dsn|secrets|passwords|userpass|authtoken|accesstoken|pw"
)
"""Matches the last part of an option's name whose value is a secret."""

_KEYS = re.compile(
    "api|access|secret|private|auth|encryption|signing|account|ssh|deploy|license|master|service"
    "|storage|wandb|openai|azure|aws"
)
"""Matches the text before ``key`` in such a name; a bare ``--key`` is usually not a secret."""

_OF_A_TOKENIZER = re.compile(
    "eos|bos|pad|mask|unk|sep|cls|stop|end|start|image|audio|video|special|per|prompt|new|max"
    "|min|num|n|total|batch|begin|prefix|suffix|time|class|separator|first|last|next|by"
)
"""Matches the text before ``token`` in the name of an option about text."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAME = re.compile(r"-{0,2}[A-Za-z][\w.+/\-]{0,200}")

_KNOWN_FORMS = re.compile(
    r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|sk_live_|rk_live_|xox[abprs]-|AKIA|ASIA|AIza"
    r"|ya29\.|npm_|pypi-|dckr_pat_)"
    r"[A-Za-z0-9_\-.]{12,}"
    r"|\beyJ[A-Za-z0-9_\-]{10,2000}\.[A-Za-z0-9_\-]{10,4000}\.[A-Za-z0-9_\-]*"
)
"""Matches keys whose first letters say whose they are, and JSON web tokens."""

_BEGINNINGS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_",
    "rk_live_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "AKIA", "ASIA", "AIza", "ya29.",
    "npm_", "pypi-", "dckr_pat_", "eyJ",
)  # fmt: skip
"""How such keys begin: most texts have none of these, which is found faster than by the pattern."""

_IN_AN_ADDRESS = re.compile(r"(://[^\s/:@]{0,200}:)[^\s/@]{1,400}(?=@)")

_BEARER = re.compile(r"\b((?:Bearer|Basic) )[^\s'\"]{6,}", re.IGNORECASE)

_QUOTED = re.compile(
    r"(-{0,2}[A-Za-z_][\w.\-]{0,100})(['\"]?\]?\s{0,5}[:=\s]\s{0,5})(['\"])([^'\"]{1,400})\3"
)
"""Matches a name and its quoted value, as shells, Python and JSON write them."""

_SPACES = re.compile(r"([\s;&|'\"?()\[\]{},]+)")
"""Matches the separators between words in a shell command, a program's text, and a query in an
address.
"""


def without_known_keys(text: str) -> str:
    """Return a text with keys of well-known forms replaced by LEFT_OUT."""
    if not may_have_known_keys(text):
        return text
    return _KNOWN_FORMS.sub(LEFT_OUT, text)


def may_have_known_keys(text: str) -> bool:
    """Return whether a text has a beginning of such a key; most texts have none."""
    return any(beginning in text for beginning in _BEGINNINGS)


@dataclass(frozen=True, slots=True)
class SafeWords:
    """Words of a command line without likely secrets."""

    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names of the options whose values were left out, such as ``--token``, each once."""


def without_secrets(words: Sequence[str]) -> SafeWords:
    """Return the words of a command line with each secret replaced by LEFT_OUT. A word that is
    itself a command line or a program (``sh -c``, ``python -c``) is searched, too.
    """
    safe: list[str] = []
    names: dict[str, None] = {}
    name_of_next = ""
    for word in words:
        if name_of_next and (not word.startswith("--") or not _NAME.fullmatch(word)):
            names[name_of_next] = None
            safe.append(LEFT_OUT)
            name_of_next = ""
            continue
        if word.startswith("-") and is_secret_name(word):
            name_of_next = word
        else:
            name_of_next = ""
        name, equals, value = word.partition("=")
        if equals and value and _NAME.fullmatch(name) and is_secret_name(name):
            names[name] = None
            safe.append(f"{name}={LEFT_OUT}")
            continue
        inner = _without_secrets_in_text(word, names)
        safe.append(inner)
    return SafeWords(tuple(safe), tuple(names))


def request_without_secrets(
    request: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a request without secrets in the program's arguments and in expressions,
    and the names of the removed ones.
    """
    safe = without_secrets(tuple(map(str, request.get("arguments") or ())))
    fields = {**request, "arguments": safe.words}
    names = dict.fromkeys(safe.names)
    for expression in ("call", "inputs", "mark_against"):
        if isinstance(request.get(expression), str):
            fields[expression] = _without_secrets_in_text(request[expression], names)
    return fields, tuple(names)


def is_left_out(fields: Mapping[str, Any]) -> bool:
    """Return whether a secret was left out of a request, so that it cannot be repeated."""
    texts = [str(fields.get(name) or "") for name in ("call", "inputs", "mark_against")]
    return any(LEFT_OUT in text for text in (*texts, *(fields.get("arguments") or ())))


def is_secret_name(name: str) -> bool:
    """Return whether an option, or a variable, of this name has a secret as its value."""
    if not _NAME.fullmatch(name):
        return False
    parts = [part.lower() for part in _PARTS.findall(name)]
    while parts and parts[-1].isdigit():
        parts.pop()
    if not parts:
        return False
    before = parts[-2] if len(parts) > 1 else ""
    if parts[-1] == "key":
        return _KEYS.fullmatch(before) is not None
    if parts[-1] == "token":
        return _OF_A_TOKENIZER.fullmatch(before) is None
    return _NAMES.fullmatch(parts[-1]) is not None


def _without_secrets_in_text(text: str, names: dict[str, None]) -> str:
    """Return a text with each secret replaced by LEFT_OUT, and add their names to ``names``."""
    for pattern, name, kept in (
        (_IN_AN_ADDRESS, "the password in an address", True),
        (_BEARER, "an authorization", True),
        (_KNOWN_FORMS, "a key", False),
    ):
        replacement = rf"\1{LEFT_OUT}" if kept else LEFT_OUT
        text, count = pattern.subn(replacement, text)
        if count:
            names[name] = None

    def without_value(match: re.Match[str]) -> str:
        name, between, quote, _ = match.groups()
        if not is_secret_name(name):
            return match[0]
        names[name] = None
        return f"{name}{between}{quote}{LEFT_OUT}{quote}"

    text = _QUOTED.sub(without_value, text)
    pieces = _SPACES.split(text)
    words = pieces[::2]
    if len(words) < 2:
        return text
    inner = without_secrets([word for word in words if word])
    if not inner.names:
        return text
    names.update(dict.fromkeys(inner.names))
    left = iter(inner.words)
    pieces[::2] = [next(left) if word else word for word in words]
    return "".join(pieces)
