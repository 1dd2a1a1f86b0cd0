"""Addresses and keys of crypto currencies, told from other text by their check sums."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from ce_engine.text.redaction.patterns import Shape


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_REMAINDERS = frozenset({1, 0x2BC830A3})  # bech32, bech32m


def base58check(text: str) -> bytes | None:
    """Return the payload, version first, of a text in Base58Check; `None` where the check sum is wrong."""
    number = 0
    for sign in text:
        number = number * 58 + _BASE58.index(sign)
    zeros = len(text) - len(text.lstrip("1"))
    raw = b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
    payload, check = raw[:-4], raw[-4:]
    twice = hashlib.sha256(hashlib.sha256(payload).digest()).digest()
    return payload if payload and twice[:4] == check else None


def base58_address(text: str) -> bool:
    """Say whether it is an address of 20 bytes: Bitcoin, Litecoin, Dogecoin, Tron and the like."""
    payload = base58check(text)
    return payload is not None and len(payload) == 21


def private_key(text: str) -> bool:
    """Say whether it is a private key as wallets export it (WIF)."""
    payload = base58check(text)
    return payload is not None and len(payload) in {33, 34} and payload[0] >= 0x80


def bech32(text: str) -> bool:
    """Say whether the check sum of a SegWit address is right (BIP 173 and BIP 350)."""
    if text not in (text.lower(), text.upper()):
        return False
    human, _, data = text.lower().rpartition("1")
    if not human or not data or any(sign not in _BECH32 for sign in data):
        return False
    values = [ord(sign) >> 5 for sign in human] + [0] + [ord(sign) & 31 for sign in human]
    check = 1
    for value in (*values, *map(_BECH32.index, data)):
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate(_GENERATORS):
            check ^= generator if top >> place & 1 else 0
    return check in _BECH32_REMAINDERS


def ethereum(text: str) -> bool:
    """Say whether `0x` and 40 hex digits may be an account.

    Its check is in upper and lower case, and not looked at: a mistyped account is somebody's as well.
    """
    return len(set(text[2:].lower())) > 5  # else nobody's: zero, dead, a sample


def _wallet(
    needs: str, pattern: str, accept: Callable[[str], bool], label: str = "WALLET"
) -> Shape:
    rule = "wallet" if label == "WALLET" else "wallet_key"
    return Shape(rule, label, needs, re.compile(pattern), accept)


_SIGN = "[1-9A-HJ-NP-Za-km-z]"

WALLETS = (
    _wallet("0x", r"(0(?<![A-Za-z0-9].)[xX][0-9a-fA-F]{40})(?![A-Za-z0-9])", ethereum),
    *(
        _wallet(f"{name}1", rf"(?<![A-Za-z0-9])((?i:{name}1)[A-Za-z0-9]{{38,62}}+)", bech32)
        for name in ("bc", "tb", "ltc")
    ),
    _wallet("", rf"([13LMDT](?<![A-Za-z0-9].){_SIGN}{{25,33}})(?![A-Za-z0-9])", base58_address),
    _wallet("", rf"([5KL](?<![A-Za-z0-9].){_SIGN}{{50,51}})(?![A-Za-z0-9])", private_key, "SECRET"),
)
"""What has a check sum; the addresses of chains without one (Solana) look like any key."""
