"""Options of ADBC drivers."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr

from venturi.common.credentials import is_secret, named, tells_secret, without_secrets
from venturi.targets.fields import Nullable, Table, Variable
from venturi.targets.setting import Setting

_adbc = partial(Setting, panel="ADBC drivers", systems={"adbc": None})
# Names of options have a secret's word in their middle as well; a header's value says what it is.
_SECRET_NAME = re.compile(r"(?i)authorization|private_?key")
_CREDENTIALS = re.compile(r"(?i)(bearer|basic)\s")


def _words(value: Any) -> Any:
    """Options as a table, or as texts of the form KEY=VALUE."""
    if isinstance(value, dict):
        return [f"{key}={_text(it)}" for key, it in value.items()]
    return [value] if isinstance(value, str) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(value: list[str] | None) -> list[str] | None:
    found: dict[str, str] = {}
    for word in value or ():
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            # It may be a URI with a password.
            raise ValueError("an option of a driver is written KEY=VALUE, as uri=file.db")
        secret = is_secret(key) or _SECRET_NAME.search(key) or _CREDENTIALS.match(text)
        if tells_secret(text, "") or without_secrets(text) != text or (secret and not named(text)):
            raise ValueError(
                f"the value of {key} would be stored with the run; put it into an environment variable, and "
                "name that by driver_option_env (--driver-option-env KEY=VARIABLE)"
            )
        if key in found:
            raise ValueError(f"{key} is given twice")
        found[key] = text
    return value or None


class Adbc(Table):
    """A driver that is loaded into the client."""

    driver_options: Annotated[
        Nullable[Annotated[list[StrictStr], BeforeValidator(_words), AfterValidator(_options)]],
        _adbc(
            "adbc: KEY=VALUE, an option of the driver; statement:KEY=VALUE, of its statements. Repeatable.",
            list[str],
            flag="--driver-option",
            commas="list",
            form="repeated",
            doc=(
                "options of the driver, each `KEY=VALUE`, or a table of them: of its database, as `uri`; of "
                "each connection, `connection:KEY`; of each statement, `statement:KEY`"
            ),
        ),
    ] = None
    driver_option_env: Annotated[
        dict[str, Variable],
        _adbc(
            "adbc: KEY=VARIABLE: an option whose value is in an environment variable. Repeatable.",
            dict,
            cell=None,
            credential=True,
            form="pairs",
            doc="the same, of options whose value is in an environment variable: `KEY=VARIABLE`",
            default="none",
        ),
    ] = Field(default_factory=dict)
    driver_entrypoint: Annotated[
        Nullable[Annotated[StrictStr, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]],
        _adbc(
            "adbc: the function of the shared library that makes the driver.",
            cell=None,
            doc="the function of the shared library that makes the driver",
            default="by the library's name, or `AdbcDriverInit`",
        ),
    ] = None
