"""Secrets are given by reference, as names of environment variables: here is what would be one in the open.

Whatever a scenario says is stored with the run and shown in its report, so a secret in it is refused, and
what is printed of a text that may hold one is printed without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "HIDDEN",
    "carries_secret",
    "environment_variable",
    "is_secret",
    "not_set",
    "scrubbed",
    "tells_secret",
    "without_passwords",
    "without_secrets",
]

HIDDEN = "***"
_LAST_WORDS = (
    *("auth", "authorization", "bearer", "cookie", "credential", "credentials", "jwt", "pass", "passphrase"),
    *("passwd", "password", "pw", "pwd", "secret", "sig", "signature", "token"),
)
_JOINED = ("accesskey", "apikey", "passwd", "password", "privatekey", "secret", "secretkey", "token")
"""Ends of names, without what stands between their words."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONVENTIONAL = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:/{0,3}")
_URL = re.compile(r"(?i)[a-z]:/{1,3}[^\s/?#@:]*(?::|%3a)[^\s/?#]*@")
_SPACES = re.compile(r"(\s+)")
_STATEMENT = re.compile(
    r"(?i)(\b(?:identified\s{1,9}(?:with\s{1,9}\w{1,40}\s{1,9})?(?:by|as)\s{1,9}|password\s{1,9}"
    r"|set\s{1,9}password\b[^'\";]{0,200}))E?(?:'[^']*'?|\"[^\"]*\"?)"
)
_ASSIGNED = re.compile(
    r"(?i)((?:token|password|passwd|passphrase|pwd|secret|authorization|credentials?|signature|jwt"
    r"|(?:api|access|private|secret)[_-]?key)\d{0,3}\s{0,3}=\s{0,3})(?!…)(?:'[^']*'?|\"[^\"]*\"?|[^\s&'\"]+)"
)


def is_secret(name: str) -> bool:
    """Whether a header, a setting or a parameter of a URL that is called so holds a secret."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().rstrip("0123456789_-. ")
    words = re.split(r"[^a-z0-9]+", spaced)
    return words[-1] in _LAST_WORDS or "".join(words).endswith(_JOINED)


def environment_variable(text: object) -> str:
    """A variable's name. Raises ValueError for what can be none: that may be the secret itself."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise ValueError(
            "must be the name of an environment variable, of letters, digits and _; not the secret itself"
        )
    return text


def not_set(name: str) -> str:
    """What is said of a variable that is not there."""
    if _CONVENTIONAL.fullmatch(name):
        return f"the environment variable {name} is not set"
    # Not spelled as such names are: it may be the secret itself.
    return "names no environment variable that is set; it takes a name, as DB_PASSWORD, not the secret itself"


def carries_secret(text: str) -> bool:
    """Whether a text has a URL with a password in it, or a statement that sets one. Only what is sure: who is
    refused has no other way to say it."""
    return bool(_URL.search(text) or _STATEMENT.search(text))


def tells_secret(word: str, before: str) -> bool:
    """Whether a word of a command, behind the word `before`, tells a secret. What follows an option that ends
    with -env is the name of a variable."""
    option, _, given = word.partition("=") if word.startswith("--") else (before, "", word)
    assigned = re.match(r"([\w.-]+)=", given)
    secret = (option.startswith("-") and is_secret(option)) or (
        assigned is not None and is_secret(assigned[1])
    )
    told = secret and bool(given) and word != option and not option.endswith("-env")
    return told or carries_secret(word) or ("://" in word and without_secrets(word) != word)


def without_secrets(text: str) -> str:
    """A text for people without the passwords of URLs, the values of `token=...` and the like."""
    return _ASSIGNED.sub(rf"\g<1>{HIDDEN}", without_passwords(text))


def without_passwords(text: str) -> str:
    """A text without the passwords of URLs and of statements that set one: it may be typed again."""
    if "@" in text:
        # Word by word, which takes a time that grows with the text, not with its square.
        text = "".join(map(_without_password, _SPACES.split(text)))
    return _STATEMENT.sub(rf"\g<1>{HIDDEN}", text)


def _without_password(word: str) -> str:
    end = word.rfind("@")
    scheme = _SCHEME.search(word, 0, end) if end > 0 else None
    if scheme is None:
        return word
    # A user alone may be seen, where it is clear that it is one.
    alone = scheme[0].endswith("/") and not re.search(":|%(25)*3a", word[scheme.end() : end], re.IGNORECASE)
    return word if alone else word[: scheme.end()] + HIDDEN + word[end:]


def scrubbed(value: Any) -> Any:
    """A value of a record with every text in it as `without_secrets` has it, and none of what is called as a
    secret is."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if isinstance(key, str) and is_secret(key) and isinstance(item, str)
            else scrubbed(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in value]
    return without_secrets(value) if isinstance(value, str) else value
