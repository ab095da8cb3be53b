"""What several commands read alike."""

from __future__ import annotations

from venturi.common.errors import VenturiError


def share(flag: str, text: str, least: float = 0.0) -> float:
    """A percentage as a share; 0 is allowed where `least` is 0."""
    from venturi.common.suffixes import parse_percent

    if least == 0.0 and text.strip().rstrip("%").strip() in ("0", "0.0"):
        return 0.0
    try:
        found = parse_percent(text) / 100
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f"as in {flag} 5%") from None
    if found < least:
        raise VenturiError(f"{flag}: {text!r} is under {least * 100:g}%", hint=f"as in {flag} 95%")
    return found


def time(flag: str, text: str) -> int:
    """A time in nanoseconds."""
    from venturi.common.suffixes import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f"as in {flag} 50ms") from None
