"""What to do about an address where nobody listens."""

from __future__ import annotations

import shlex

from venturi.common.links import SERVER_END
from venturi.targets.system import REFERENCE, SERVERS, is_unix, scheme_of
from venturi.targets.urls import is_loopback, place_of

__all__ = ["start_a_server"]


def start_a_server(target: str) -> str:
    """A command that starts a server of this system there, where Venturi has one."""
    scheme = scheme_of(target)
    if SERVER_END in target:
        return f"does the program of --server still listen at {place_of(target)}?"
    if scheme in REFERENCE:
        anywhere = "" if is_loopback(target) else " --host 0.0.0.0"
        if is_unix(target):
            anywhere = f" --unix {shlex.quote(place_of(target))}"
        return f"start a server there: venturi serve {REFERENCE[scheme]}{anywhere}"
    if scheme in SERVERS:
        own = f"venturi serve {SERVERS[scheme]}, or --target {scheme}://local"
        return f"is the database running? One for a try: {own}"
    return "does its server run, and is this its address?"
