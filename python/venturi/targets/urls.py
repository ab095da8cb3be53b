"""Addresses of targets: which system a URL names, its hosts and ports, and what it must not carry."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import SplitResult, unquote, urlsplit

from venturi.common.credentials import HIDDEN, is_secret
from venturi.common.texts import meant
from venturi.targets.system import (
    ALIASES,
    BY_SCHEME,
    DRIVERS,
    FILES,
    HOST,
    NO_PLACE,
    PARAMETERS,
    PLUGINS,
    PORTS,
    REFUSED,
    REMOTE,
    SCHEMES,
    in_process,
    is_charrow,
    is_database,
    is_driver,
    is_flight_sql,
    is_local,
    is_ours,
    is_program,
    is_time_series,
    is_unix,
    scheme_of,
)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_DRIVER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


_LONGEST_SOCKET = 107
"""Bytes of a path in sockaddr_un, without the zero at its end (unix(7))."""
_UNIX = re.compile(r"(?:((?:[^/?#]*@)?/[^:?#]*)(?::([^?#]*))?|local:?(/[^?#]*)?)(?:\?([^#]*))?")


class _Unix(SplitResult):
    """Of `SCHEME+unix://[USER@]/SOCKET[:/PATH][?QUERY]`: its netloc are the sockets, with commas between."""

    __slots__ = ()

    def geturl(self) -> str:
        path = f":{self.path}" if self.path else ""
        return f"{self.scheme}://{self.netloc}{path}" + (f"?{self.query}" if self.query else "")


def split_url(url: str) -> SplitResult:
    """The parts of a target's URL: as urlsplit has them, and of one that names Unix sockets likewise."""
    scheme, _, rest = url.partition("://")
    found = _UNIX.fullmatch(rest) if is_unix(url) else None
    if found is None:
        return urlsplit(url)
    return _Unix(scheme, found[1] or "local", found[2] or found[3] or "", found[4] or "", "")


def each_host(url: str) -> list[str]:
    """The addresses of the hosts that a URL names, each as a URL of its own."""
    parts = split_url(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [parts._replace(netloc=user + at + host).geturl() for host in hosts.split(",")]


def is_loopback(url: str) -> bool:
    """Whether all of the address is this machine's own; a file and a Unix socket always are."""
    if is_unix(url):
        return True
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    names = [urlsplit(f"//{host}").hostname or "" for host in hosts]
    return in_process(url) or all(n in ("localhost", "::1") or n.startswith("127.") for n in names)


def place_of(url: str) -> str:
    """How results call this address where nobody named it: `local`, `remote`, HOST:PORT, a file's name, or
    the path of a Unix socket."""
    if is_ours(url):
        return "local" if is_local(url) else "remote"
    parts = split_url(url)
    if is_unix(url):
        return unquote(parts.netloc.rpartition("@")[2])
    if in_process(url) or (is_driver(url) and not parts.netloc):
        return parts.path.rsplit("/", 1)[-1]
    return parts.netloc.rpartition("@")[2] or url


def printable(url: str) -> str:
    """What an error shows of a URL that is none of ours: nothing of what stands before its last @, where a
    password may be however it is misspelt, and no parameters."""
    scheme, colon, rest = url.partition(":")
    if not (colon and _SCHEME.fullmatch(scheme)):
        scheme, colon, rest = "", "", url
    place = rest.lstrip("/")
    slashes = rest[: len(rest) - len(place)]
    end = max(place.rfind("@"), place.rfind("%40"))
    if end >= 0:
        # Behind a ? the @ may be part of a secret as well, and what follows it the rest of that.
        place = HIDDEN + ("" if re.search("[?#]", place[:end]) else place[end:])
    if mark := re.search("[?#]", place):
        place = place[: mark.end()] + HIDDEN
    return scheme + colon + slashes + place


def _wrong(url: str, text: str) -> ValueError:
    """Of a text whose subject is the URL, or of a sentence about it."""
    mark = "" if text.startswith(("names ", "is ", "has ")) else ":"
    return ValueError(f"{printable(url)!r}{mark} {text}")


def check_url(url: str) -> str:
    """A target's URL with its ports. Raises ValueError where it is none, or carries a secret."""
    if "://" not in url:
        raise _wrong(url, "is not a URL; write flight://HOST:PORT, or mysql://HOST/DATABASE")
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme in REFUSED and scheme not in SCHEMES:
        raise _wrong(url, f"{scheme}:// cannot be used: {REFUSED[scheme]}")
    if scheme not in SCHEMES:
        also = ALIASES.get(scheme)
        end = f"write {also}://" if also else meant(scheme, SCHEMES, f"known: {', '.join(SCHEMES)}")
        raise _wrong(url, f"no target is called {printable(scheme)!r}; {end}")
    url = f"{scheme}://{rest}"
    found = re.search("[?#]", rest)
    cut = found.start() if found else len(rest)
    place, parameters = rest[:cut], rest[cut + 1 :]
    _no_secrets(scheme, place, parameters)
    _check_text(url, scheme)
    if scheme in PLUGINS:
        if place in ("local", "remote"):
            raise _wrong(url, f"{place} means a server that Venturi starts, and it starts none of a plugin")
        return url
    if scheme in DRIVERS:
        return _driver(url, scheme, rest)
    if scheme in NO_PLACE:
        if rest and is_program(url):
            raise _wrong(url, "the program is named by command (--command), not by the URL")
        if rest:
            raise _wrong(url, f"{scheme}:// is in this process; nothing may follow")
        return f"{scheme}://"
    if scheme in FILES:
        return _file(url, scheme, rest)
    if "#" in rest:
        raise _wrong(url, "a # is written %23 in a URL")
    _check_parameters(url, scheme, parameters)
    if is_unix(url):
        return _unix(url, scheme)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong(url, "the host is in brackets that do not match") from None
    user, at, hosts = parts.netloc.rpartition("@")
    form = f"{scheme}://HOST:PORT" + ("/DATABASE" if scheme == "influx+http" or _has_users(scheme) else "")
    if not hosts:
        raise _wrong(url, f"names no host; write {form}")
    _check_user(url, scheme, user, at)
    several = hosts.split(",")
    if len(several) > 1:
        _check_several(url, several)
    addresses = [_host(url, host, form) for host in several]
    if len(set(addresses)) < len(addresses) and not is_database(url):
        raise _wrong(url, "names a host twice; streams take the hosts in turn, so once is enough")
    netloc = user + at + ",".join(addresses)
    if is_flight_sql(url):
        _only_host(url, scheme, parts.path)
    if is_time_series(url):
        _store(scheme, hosts, parts.path)
    if parts.hostname in ("local", "remote") and scheme.endswith("+tls"):
        own = f"{scheme_of(url)}://{parts.hostname}"
        raise _wrong(url, f"a server of our own has no certificate; write {own}")
    if is_charrow(url) or _has_users(scheme):
        _database(scheme, parts.path)
    return parts._replace(netloc=netloc).geturl()


def _check_user(url: str, scheme: str, user: str, at: str) -> None:
    if at and not _has_users(scheme):
        raise _wrong(url, f"{scheme}:// has no user in its URL; {_instead(scheme, 'user')}")
    if at and not user:
        raise _wrong(url, "there is no user before the @")


def _unix(url: str, scheme: str) -> str:
    """One that names Unix sockets, or `local`."""
    what = "TABLE" if scheme_of(url) == "flight" else "DATABASE"
    form = f"{scheme}:///path/of/socket, or {scheme}:///path/of/socket:/{what}"
    parts = split_url(url)
    user, at, sockets = parts.netloc.rpartition("@")
    if parts.netloc == "remote":
        raise _wrong(
            url,
            f"remote means servers on other hosts, and a Unix socket is of one host; "
            f"write {scheme_of(url)}://remote",
        )
    if parts.netloc != "local":
        _check_user(url, scheme, user, at)
        if not sockets.startswith("/"):
            raise _wrong(url, f"names no socket; write {form}, with three slashes")
        if parts.path and not parts.path.startswith("/"):
            raise _wrong(url, f"behind the socket's colon a / follows; write {form}")
        several = sockets.split(",")
        if len(several) > 1:
            _check_several(url, several)
        for socket in several:
            _socket(url, socket, form)
        if len(set(several)) < len(several) and not is_database(url):
            raise _wrong(url, "names a socket twice; streams take them in turn")
    if is_charrow(url) or _has_users(scheme):
        _database(scheme, parts.path)
    return parts.geturl()


def _socket(url: str, escaped: str, form: str) -> None:
    """Whether it can be the path of a socket; whether one is there is seen when it is connected to."""
    path = unquote(escaped)
    if not path.startswith("/") or not path.strip("/"):
        raise _wrong(url, f"names no socket; write {form}, with three slashes")
    if (length := len(path.encode())) > _LONGEST_SOCKET:
        raise _wrong(
            url,
            f"the path of a Unix socket has {_LONGEST_SOCKET} bytes at most, and this "
            f"one {length}; use a shorter one, or a symbolic link to its directory",
        )


def _has_users(scheme: str) -> bool:
    """Whether a user may stand before the host."""
    return BY_SCHEME[scheme_of(f"{scheme}://")].users


def _no_secrets(scheme: str, place: str, parameters: str) -> None:
    """What a scenario says is stored with the run and shown in its report. A secret is refused, and is not
    repeated."""
    # Of a file's path only its beginning, where a user would stand who is misspelt.
    in_path = scheme in (*FILES, *DRIVERS)
    user, at, _ = (place.lstrip("/").partition("/")[0] if in_path else place).rpartition("@")
    if "/" in user:
        shown = printable(f"{scheme}://{place}")
        raise ValueError(
            f"{shown!r}: an @ behind the first / is written %40; a password does not belong into a URL: "
            f"{_instead(scheme, 'user', 'password_env')}"
        )
    if at and ":" in unquote(unquote(user)):
        raise ValueError(
            f"a password in the URL would be stored with the run; {_instead(scheme, 'user', 'password_env')}"
        )
    names = [unquote(part.partition("=")[0]) for part in re.split("[&?#]", parameters)]
    if any(is_secret(name) and re.fullmatch(r"[\w.-]+", name) for name in names):
        ways = _instead(scheme, "token_env", "password_env", "header_env", word="or")
        raise ValueError(f"a secret in the URL would be stored with the run; {ways}")


def _instead(scheme: str, *names: str, word: str = "and") -> str:
    """Options by which this system is told the same, and their flags."""
    from venturi.targets.options import APPLIES

    allowed = [name for name in names if scheme_of(f"{scheme}://") in APPLIES[name]]
    if not allowed:
        return f"leave it out: {scheme}:// has no log-in"
    flags = ", ".join("--" + name.replace("_", "-") for name in allowed)
    return f"use {f' {word} '.join(allowed)} ({flags})"


def _check_text(url: str, scheme: str) -> None:
    """Whether a URL is text, also without its escapes."""
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", url):
        raise _wrong(url, "has a control character, or bytes that are not UTF-8")
    if scheme in (*FILES, *DRIVERS):
        return
    if re.search(r"%(?![0-9A-Fa-f]{2})", url):
        raise _wrong(url, "has a % without two hexadecimal digits; a % itself is written %25")
    if scheme_of(url) != "flight":
        try:
            unquote(url, errors="strict")
        except UnicodeDecodeError:
            raise _wrong(url, "its escapes are not UTF-8") from None


def _check_parameters(url: str, scheme: str, parameters: str) -> None:
    """Whether what follows the host, and a ?, means something to the system."""
    allowed = PARAMETERS.get(scheme_of(url), ())
    if "*" in allowed:
        return
    names = [part.partition("=") for part in parameters.split("&")] if parameters else []
    if len(names) > 1 or any(name not in allowed or not equals for name, equals, _ in names):
        if not allowed:
            # Other programs take passwords there.
            raise ValueError(f"a URL of {scheme}:// has no parameters; settings are keys of [target]")
        may = " or ".join(f"?{name}=TEXT" for name in allowed)
        raise ValueError(
            f"a URL of {scheme}:// may end with {may}, and nothing else; an & in the text is written %26"
        )
    if names and scheme_of(url) == "flight" and _asks_path(url):
        raise _wrong(url, f"names a table and a {names[0][0]}; keep one of the two")


def _asks_path(url: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(split_url(url).path.strip("/"))
    return False


def _host(url: str, host: str, form: str) -> str:
    """One host with its port."""
    try:
        parts = urlsplit(f"//{host}")
    except ValueError:
        raise _wrong(url, "the host is in brackets that do not match") from None
    if not parts.hostname:
        raise _wrong(url, f"names no host; write {form}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise _wrong(url, "the port must be a number from 1 to 65535")
    if not HOST.fullmatch(host):
        raise _wrong(url, f"names no host; write {form}, an IPv6 address as [::1]")
    if _is_own(scheme_of(url), parts.hostname):
        if port is not None:
            raise _wrong(url, f"{parts.hostname} is a server of our own, on a free port; leave the port out")
        return host
    if port is None and parts.hostname != "local":
        return f"{host.rstrip(':')}:{PORTS.get(url.partition('://')[0]) or PORTS[scheme_of(url)]}"
    return host


def _is_own(scheme: str, name: str) -> bool:
    """Whether a host's name stands for a server that the run starts."""
    # Of flight://local a port has always been let pass.
    return (name == "local" and scheme != "flight") or (name == "remote" and scheme in REMOTE)


def _check_several(url: str, hosts: list[str]) -> None:
    """Whether streams can be spread over these hosts."""
    scheme = scheme_of(url)
    if reason := BY_SCHEME[scheme].one_host:
        raise _wrong(url, f"{scheme}:// takes one host: {reason}; name one")
    for name in ("local", *(("remote",) if scheme in REMOTE else ())):
        if name in hosts:
            what = "is a server of our own" if name == "local" else "means servers of our own"
            raise _wrong(url, f"{name} {what}, and stands alone")


def _database(scheme: str, path: str) -> None:
    """Whether what follows the hosts is the name of a database, or nothing."""
    what = "keyspace" if scheme.startswith("cassandra") else "database"
    if "/" in path.strip("/"):
        form = "/path/of/socket:" if is_unix(f"{scheme}://") else "HOST:PORT"
        raise ValueError(f"{path!r} is not a {what}; write {scheme}://{form}/{what.upper()}")


def _only_host(url: str, scheme: str, path: str) -> None:
    """Whether nothing follows a host that is somebody else's."""
    if is_local(url):
        raise _wrong(
            url, f"Venturi has no server of {scheme}:// to start; name one of yours, {scheme}://HOST:PORT"
        )
    if path.strip("/"):
        raise _wrong(
            url,
            f"what is read is named by table or query (--table, --query), a catalog by a "
            f"header that its server knows; write {scheme}://HOST:PORT",
        )


def _store(scheme: str, host: str, path: str) -> None:
    """Whether what stands beside the host means something to a store of time series."""
    if path.strip("/") and scheme != "influx+http":
        raise ValueError(f"a URL of {scheme}:// names no database; write {scheme}://HOST:PORT")
    if scheme == "influx+http" and not path.strip("/") and host not in ("local", "remote"):
        raise ValueError(f"{scheme}://{host} names no database; write {scheme}://HOST:PORT/DATABASE")
    if path.strip("/").count("/") > 1:
        raise ValueError(f"{path!r} is no database; write {scheme}://HOST:PORT/DATABASE, or .../ORG/BUCKET")


def _driver(url: str, scheme: str, rest: str) -> str:
    if re.search(r"[?#]", rest):
        raise ValueError(
            f"a URL of {scheme}:// has no parameters; options of its driver are given by --driver-option"
        )
    if rest in ("local", "remote"):
        raise _wrong(url, f"{rest} means a server that Venturi starts; name a driver, as {scheme}://sqlite")
    if not (_DRIVER.fullmatch(rest) or (rest.startswith("/") and rest.strip("/") and not rest.endswith("/"))):
        raise _wrong(
            url,
            f"names no driver; write {scheme}://postgresql, or "
            f"{scheme}:///path/to/libadbc_driver_x.so with three slashes",
        )
    return url


def _file(url: str, scheme: str, rest: str) -> str:
    if rest == "local":
        return url
    if re.search(r"[?#]", rest):
        raise ValueError(f"a URL of {scheme}:// has no parameters, and its file's name no ? or #")
    if not rest.startswith("/") or rest.endswith("/") or rest == "/":
        raise _wrong(
            url,
            f"names no file; write {scheme}:///path/to/file.db with three slashes, "
            f"or {scheme}://local for a temporary one",
        )
    return url
