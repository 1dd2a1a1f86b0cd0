"""Addresses of devices: IPv6 and MAC, by form alone or behind a label."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from ce_engine.text.redaction.patterns import Shape


_GROUP = "[0-9a-fA-F]{1,4}"
IPV6 = rf"(?:{_GROUP}:){{1,7}}(?::?{_GROUP}){{0,7}}(?::[0-9.]{{7,15}})?"
"""Reads all signs of an address; whether it is one, `ipv6` says."""

_SERVERS = re.compile(
    r"(?:listen(?:s|ing)?(?: on)?|bind(?:ing)?(?: to)?|server|gateway|dns|resolver|route|via|upstream|"
    r"public[ _]ip|host|target|dst)[ \t]{0,2}[:=]?[ \t]?\[?\Z",
    re.IGNORECASE,
)

_NETWORK = re.compile(r"/(?!64(?![0-9])|128(?![0-9]))[0-9]{1,3}(?![0-9])")
"""`inet6 2a02:8109::7/64` is one host's address with its network's length."""
_HOST = (1 << 64) - 1
_DOCUMENTATION = 0x20010DB8


def ipv6(text: str) -> IPv6Address | None:
    """Return the address of one host; `None` for what is none, a network, or nobody's (`::1`)."""
    if text.count(":") < 2 or text.endswith(":"):
        return None
    try:
        address = IPv6Address(text)
    except (AddressValueError, ValueError):
        return None
    return None if address.is_loopback or address.is_unspecified else address


def _global_ipv6(text: str) -> bool:
    """Say whether it is an address of the public range, with enough groups to be no code (`a::b`)."""
    address = ipv6(text)
    groups = [group for group in text.split(":") if group]
    if address is None or int(address) >> 125 != 1 or not int(address) & _HOST:
        return False
    return len(groups) > (
        4 if int(address) >> 96 == _DOCUMENTATION else 2
    )  # `2001:db8::1` is a sample


def is_somebodys(text: str, start: int, end: int) -> bool:
    """Say whether nothing before an address says that it is a machine's, nor behind it that it is a network."""
    if _NETWORK.match(text, end):
        return False
    return _SERVERS.search(text, max(0, start - 24), start) is None


def _mac(text: str) -> bool:
    digits = re.sub("[:-]", "", text).lower()
    if len(set(digits)) < 3:
        return False  # nobody's: broadcast, zero
    return ":" in text or any(
        sign in "abcdef" for sign in digits
    )  # `20-24-11-23-10-22` may be a time


DEVICES = (
    Shape(
        "ipv6",
        "IP",
        ":",
        re.compile(
            r"([23](?<![0-9A-Za-z:.].)[0-9a-fA-F]{3}:(?:[0-9a-fA-F]{0,4}:){1,6}[0-9a-fA-F]{1,4})"
            r"(?![0-9A-Za-z]|:[0-9A-Za-z:])"
        ),
        _global_ipv6,
        is_somebodys,
    ),
    Shape(
        "mac",
        "MAC_ADDRESS",
        "",
        re.compile(
            r"([0-9A-Fa-f](?<![0-9A-Za-z:\-].)[0-9A-Fa-f]([:-])(?:[0-9A-Fa-f]{2}\2){4}[0-9A-Fa-f]{2})"
            r"(?![0-9A-Za-z]|[:\-][0-9A-Fa-f])"
        ),
        _mac,
    ),
)
