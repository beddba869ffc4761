"""Identifiers: a prefix, then 26 characters that sort by time of creation (ULID layout)."""

import secrets
import time
from datetime import datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SHIFTS = range(120, -1, -10)  # 26 digits of five bits, two at a time


def new_id(prefix: str) -> str:
    """A fresh id such as `turn_01j…`: 48 bits of milliseconds, then 80 random bits, in base 32."""
    return _spelled(prefix, time.time_ns() // 1_000_000, secrets.randbits(80))


def id_at(prefix: str, moment: datetime) -> str:
    """A fresh id as it would have been made at `moment`."""
    return _spelled(prefix, int(moment.timestamp() * 1000), secrets.randbits(80))


def first_id(prefix: str, moment: datetime) -> str:
    """The smallest id made at `moment`: every one made earlier sorts before it."""
    return _spelled(prefix, int(moment.timestamp() * 1000), 0)


def _spelled(prefix: str, milliseconds: int, random: int) -> str:
    value = milliseconds << 80 | random
    return f"{prefix}_{''.join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])}"
