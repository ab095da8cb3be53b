"""Secrets are given by reference, as names of environment variables: here is what would be one in the open.

Whatever a scenario says is stored with the run and shown in its report, so a secret in it is refused, and
what is printed of a text that may hold one is printed without it. In every free text, as a command or a
statement, `{env:NAME}` stands for a variable's value: it is filled in when the text is used, never stored.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

HIDDEN = "***"
INSTEAD = (
    "write {env:NAME} instead; Venturi inserts the variable's value when it uses the text and never stores it"
)
_LAST_WORDS = (
    *("auth", "authorization", "bearer", "cookie", "credential", "credentials", "jwt", "pass", "passphrase"),
    *("passwd", "password", "pw", "pwd", "secret", "sig", "signature", "token"),
)
_JOINED = (
    *("accesskey", "accountkey", "apikey", "authkey", "functionskey", "masterkey", "passwd", "password"),
    *("privatekey", "secret", "secretkey", "sharedkey", "signingkey", "subscriptionkey", "token"),
)
"""Ends of names, without what stands between their words."""
_REFERENCE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_BY_NAME = r"\{env(?::[A-Za-z_]\w*)?\}"
"""What a secret is said by that is in a variable; without a colon by `_colonless`."""
_LEAST_SECRET, _LEAST_PART = 3, 6
"""Letters: what is shorter stands in any text."""
_NAMED: set[str] = set()
"""Variables that texts of this process name."""
_CUT = re.compile(r"\.\.\.|…|\W{0,9}\Z")
"""What follows the beginning of a value that somebody has cut."""
_FREE = ("command", "complaints", "error", "message", "note", "notes", "relay", "settings")
"""Keys of a record below which are free texts; all others are words of Venturi's, names and figures."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONVENTIONAL = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:/{0,3}")
_URL = re.compile(rf"(?i)[a-z]:/{{1,3}}[^\s/?#@:]*(?::|%3a)(?!{_BY_NAME})[^\s/?#]*@")
_SPACES = re.compile(r"(\s+)")
_STATEMENT = re.compile(
    r"(?i)(\b(?:identified\s{1,9}(?:with\s{1,9}\w{1,40}\s{1,9})?(?:by|as)\s{1,9}|password\s{1,9}"
    rf"|set\s{{1,9}}password\b[^'\";]{{0,200}}))E?(?!['\"]{_BY_NAME})(?:'[^']*'?|\"[^\"]*\"?)"
)
_ASSIGNED = re.compile(
    r"(?i)((?:token|password|passwd|passphrase|pwd|secret|authorization|credentials?|signature|jwt"
    rf"|(?:api|access|private|secret)[_-]?key)\d{{0,3}}\s{{0,3}}=\s{{0,3}})(?!…|['\"]?{_BY_NAME})"
    r"(?:'[^']*'?|\"[^\"]*\"?|[^\s&'\"]+)"
)
_AUTHORIZATION = re.compile(
    r"(?i)\b(?:proxy-)?authorization\\?['\"]?\s{0,9}[:=]\s{0,9}\\?['\"]?"
    rf"(?:(?:basic|bearer|token|apikey|digest|negotiate)\s+(?!{_BY_NAME}|(?:and|auth|basic|bearer|or|token)\b)"
    r"[^\s'\"]|(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{8})"
)
_JSON = re.compile(rf"['\"]([\w.-]{{1,80}})\\?['\"]\s{{0,9}}:\s{{0,9}}\\?['\"](?!{_BY_NAME})([^\s'\"\\]+)")
_PARAMETER = re.compile(rf"[?&]([\w.-]{{1,80}})=(?!{_BY_NAME})([^\s&'\"]+)")
_DEFINES = re.compile(
    r"(?i)(?:^|;)\s*(?:alter|attach|change|connect|grant|set"
    r"|create\s+(?!(?:or\s+replace\s+)?(?:\w+\s+)?(?:function|index|procedure|table|view)\b))\b"
)
_DEFINED = re.compile(rf"(?i)\b([a-z][\w.]{{0,80}})\s{{0,9}}(?:=>?|\bto\b)?\s{{0,9}}'(?!{_BY_NAME})([^']+)")
_CONNECTS = re.compile(
    r"(?i)'(?=[^']*\b(?:data source|database|dbname|driver|host|hostaddr|port|server|uid|user)\s?=)"
    rf"(?:[^']*[\s;&?])?(?:password|passwd|pwd|secret|token)\s?=\s?(?!{_BY_NAME})[^\s;&']"
)
_HEADER = re.compile(
    rf"([\w-]{{1,80}}):\s*(?:(?:basic|bearer|token)\s+)?(?!{_BY_NAME}|(?i:basic|bearer)\b)\S"
)
_HEADERS = ("-H", "--header", "--headers")
_PAIRS = {
    "curl": ("-u", "-U", "-b", "--user", "--proxy-user"),
    "http": ("-a", "--auth"),
    "https": ("-a", "--auth"),
}
"""Options of programs that take USER:PASSWORD, or a cookie."""
_ALONE = {
    **dict.fromkeys(("cqlsh", "mongo", "mongodump", "mongorestore", "mongosh", "sshpass"), "-p"),
    **dict.fromkeys(("bcp", "sqlcmd"), "-P"),
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli"), "-a"),
    **dict.fromkeys(("ldapsearch", "ldapmodify"), "-w"),
}
"""Those that take a password; of the next ones only what stands behind the letter."""
_ATTACHED = dict.fromkeys(
    ("mysql", "mysqladmin", "mysqldump", "mysqlslap", "mariadb", "mariadb-admin", "mariadb-dump"), "-p"
)
_OF_SSHPASS = ("-p", "-f", "-d", "-P")
"""Its options with a value: another word is the program that it starts."""
_SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "runuser", "sh", "su", "zsh")
"""What runs the word behind -c as a script; the next ones any word."""
_REMOTE_SHELLS = ("eval", "ssh", "watch")
_FILLED_IN = re.compile(r"\$(?:\w+|[{(@*])")
"""What a shell fills in: nobody else does, so elsewhere it is the secret itself."""
_RUNS = re.compile(
    rf"(?<![\w.-])(?:(?:{'|'.join(_SHELLS)})\s(?:[^;|&]{{0,200}}\s)?-\w{{0,9}}c|{'|'.join(_REMOTE_SHELLS)})\s"
)
"""A command, not yet split, that runs the rest as a script."""
_NEXT = "\0"
"""A word between two commands of a script."""


def is_secret(name: str) -> bool:
    """Whether a header, a setting or a parameter of a URL that is called so holds a secret."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().rstrip("0123456789_-. ")
    words = re.split(r"[^a-z0-9]+", spaced)
    return words[-1] in _LAST_WORDS or "".join(words).endswith(_JOINED)


def is_secret_setting(name: str, value: str) -> bool:
    """Whether a setting, or an option of a program, holds a secret. One called auth names a method."""
    return not re.search(r"(?i)(?:^|[^a-z])auth$", name) and _holds_secret(name, value)


def _holds_secret(name: str, value: str) -> bool:
    """Whether a value of that name is a secret: not one as on or off, and of numbers only a password."""
    number = re.fullmatch(r"-?\d+(?:\.\d+)?", value) and not re.search(r"(?i)pass|secret|pwd?$", name)
    return is_secret(name) and not number and not re.fullmatch(r"(?i)on|off|none|true|false", value)


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


def named(value: Any) -> list[str]:
    """The variables that a text, or the texts of a tree, name by `{env:NAME}`. Their values are masked from
    now on."""
    if isinstance(value, Mapping):
        return [name for item in (*value, *value.values()) for name in named(item)]
    if isinstance(value, list | tuple):
        return [name for item in value for name in named(item)]
    found = _REFERENCE.findall(value) if isinstance(value, str) else []
    _NAMED.update(found)
    return found


def filled(text: str) -> str:
    """A text with the values of the variables that it names. Raises ValueError if one is not set."""
    for name in named(text):
        if not os.environ.get(name):
            raise ValueError(not_set(name))
    return _REFERENCE.sub(lambda found: os.environ[found[1]], text)


def masked(text: str) -> str:
    """A text without the values of variables that this process' texts name, nor their beginnings where
    somebody may have cut them: at its end, or before dots."""
    values = {value for name in _NAMED if len(value := os.environ.get(name, "").strip()) >= _LEAST_SECRET}
    for value in sorted(values, key=len, reverse=True):
        for form in (value, quote(value, safe=""), json.dumps(value)[1:-1]):
            text = text.replace(form, HIDDEN)
        head, at = value[:_LEAST_PART], -1
        while len(value) > _LEAST_PART and (at := text.find(head, at + 1)) >= 0:
            pairs = zip(value, text[at:], strict=False)
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            if _CUT.match(text, at + same):
                text = text[:at] + HIDDEN + text[at + same :]
    return text


def without_named(value: Any, free: bool = False) -> Any:
    """A record with every free text in it as `masked` has it."""
    if not _NAMED:
        return value
    if isinstance(value, Mapping):
        return {key: without_named(it, key in _FREE or (free and key != "kind")) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return [without_named(item, free) for item in value]
    return masked(value) if free and isinstance(value, str) else value


def carries_secret(text: str) -> bool:
    """Whether a text has a secret in it: a URL with a password, a statement that sets one, the header or the
    field of JSON that holds one. Only what is sure, by `{env:NAME}` everything can be said."""
    text = _colonless(text)
    if _URL.search(text) or _STATEMENT.search(text) or _AUTHORIZATION.search(text) or _CONNECTS.search(text):
        return True
    found = _JSON.findall(text)
    if "://" in text:
        found += _PARAMETER.findall(text)
    if _DEFINES.search(text):
        if re.search(r"(?i)\battach\b", text) and _ASSIGNED.search(text):
            return True
        if any(is_secret_setting(name, value) for name, value in _DEFINED.findall(text)):
            return True
    return any(_holds_secret(name, value) for name, value in found)


def tells_secret(word: str, before: str) -> bool:
    """Whether a word of a command, behind the word `before`, tells a secret. What follows an option that ends
    with -env is the name of a variable."""
    word, before = _colonless(word), _colonless(before)
    option, _, argument = word.partition("=") if word.startswith("--") else (before, "", word)
    assigned = re.match(r"([\w.-]+)=", argument)
    value = argument[assigned.end() :] if assigned is not None else argument
    secret = (option.startswith("-") and is_secret_setting(option, value)) or (
        assigned is not None and is_secret_setting(assigned[1], value)
    )
    exposed = secret and bool(value) and word != option and not option.endswith("-env")
    exposed = exposed and re.match(_BY_NAME, value) is None
    line = word[2:] if word.startswith("-H") else argument
    header = _HEADER.match(line.strip()) if line != word or before in _HEADERS else None
    return (
        exposed
        or (header is not None and is_secret(header[1]))
        or carries_secret(word)
        or ("://" in word and _plain(word) != word)
    )


def command_tells_secret(words: Sequence[str]) -> bool:
    """Whether one of a command's words tells a secret, or one of a script among them."""
    program, words = "", [_colonless(word) for word in words]
    shell, remote = False, False
    for word, before in zip(words, ["", *words], strict=False):
        if remote or (shell and re.fullmatch(r"-\w*c", before)):
            word = _FILLED_IN.sub("{env}", word)
        if tells_secret(word, before) or _short_option(program, word, before):
            return True
        if command_tells_secret(_script(word)):
            return True
        name = PurePath(word).name
        shell, remote = shell or name in _SHELLS, remote or name in _REMOTE_SHELLS
        if name in _PAIRS or name in _ALONE or name in _ATTACHED:
            program = name
        elif word == _NEXT or (program == "sshpass" and word[:1] != "-" and before not in _OF_SSHPASS):
            program = ""
    return False


def _short_option(program: str, word: str, before: str) -> bool:
    """Whether an option of one letter, of a program that is known, tells a secret."""
    options = _PAIRS.get(program, (_ALONE.get(program) or _ATTACHED.get(program, "") or "-",))
    for option in options:
        begins = word.startswith(f"{option}=" if option.startswith("--") else option)
        value = word.removeprefix(option).removeprefix("=") if begins else ""
        if before == option and program not in _ATTACHED:
            value = word
        if program in _PAIRS:
            value = re.split("[:=]", value, maxsplit=1)[1] if re.search("[:=]", value) else ""
        if value and option != "-" and not re.match(_BY_NAME, value):
            return True
    return False


def _script(word: str) -> list[str]:
    """The words within a word, as a connection's settings or a script has them; none if it has no more."""
    # Spaces of shlex: at others, as one that does not break, it splits nothing, and there would be no end.
    if not re.search(r"[ \t\r\n;]", word):
        return []
    parted = re.sub(r"[;|&\n]+", f" {_NEXT} ", word)
    try:
        return shlex.split(parted)
    except ValueError:
        return parted.split()


def _colonless(text: str) -> str:
    """A text whose references, and those that a shell in it fills in, have no colon, which would separate a
    user from a password."""
    text = _REFERENCE.sub("{env}", text)
    script = runs.end() if (runs := _RUNS.search(text)) else len(text)
    return text[:script] + _FILLED_IN.sub("{env}", text[script:])


def without_secrets(text: str) -> str:
    """A text for people without the passwords of URLs, the values of `token=...` and the like, and those of
    variables that were named."""
    return _plain(masked(text))


def _plain(text: str) -> str:
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
    # A user alone may be seen, where it is clear that it is one, and so may a variable's name.
    user = re.sub(rf":{_BY_NAME}.*", "", _colonless(word[scheme.end() : end]))
    alone = scheme[0].endswith("/") and not re.search(":|%(25)*3a", user, re.IGNORECASE)
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


def split_command(command: str) -> list[str]:
    """The program and its arguments, as a shell would split them; no shell is asked. Raises ValueError where
    that cannot be done, or where nothing stands there."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r}: {str(error).lower()}") from None
    if not found or not found[0]:
        raise ValueError("names no program")
    return found


def storable_command(value: str | None) -> str | None:
    """A command that may be stored. Raises ValueError where it has a secret in it, or is none."""
    if value is not None and command_tells_secret(split_command(value)):
        raise ValueError(f"a secret in it would be stored with the run; {INSTEAD}")
    return value
