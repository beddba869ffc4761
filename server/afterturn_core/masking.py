"""Secrets and personal data replaced by `[secret]`, `[email]`, …: the same text always by the same.

Masking what is masked changes nothing. The libraries that find them (the extra `privacy`) are imported with
the first text that is masked, so that a process which masks nothing stays as light as it was.
"""

import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import orjson

EXCLUDED: Final = "masked"  # why a turn is not trained that held what is masked
KINDS: Final = ("secret", "email", "card", "iban", "phone", "ssn")
LIBRARIES: Final = ("detect_secrets", "phonenumbers", "stdnum")
PASSES: Final = 6  # a text that still shows something new after so many is no text, and goes altogether
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(KINDS)})\]")
_DEEPEST: Final = 100  # levels of a value that are walked; what lies deeper is read as one text
_REMEMBERED: Final = 8192  # texts: clients send the whole history with every request
# What names and structure hold: changing it would tear a conversation apart, and nobody writes there.
_STRUCTURE: Final = frozenset({"id", "type", "role", "tool_call_id", "call_id", "item_id"})
_FILES: Final = frozenset({"url", "image_url", "file_data"})


@dataclass(frozen=True)
class Masked:
    """A text without what was found in it, and which kinds those were."""

    text: str
    kinds: frozenset[str]


class _Memory:
    """What became of texts, by their digests: raw texts are not kept."""

    def __init__(self) -> None:
        self._found: dict[bytes, Masked | None] = {}
        self._lock = threading.Lock()

    def get(self, digest: bytes, text: str) -> Masked | None:
        with self._lock:
            if digest not in self._found:
                return None
            return self._found[digest] or Masked(text, frozenset())

    def put(self, digest: bytes, masked: Masked) -> None:
        with self._lock:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[digest] = masked if masked.kinds else None


_memory = _Memory()


def installed() -> bool:
    """Whether the libraries are there; imports none of them."""
    return all(find_spec(name) is not None for name in LIBRARIES)


def mask(text: str) -> Masked:
    """The text without secrets and personal data.

    Raises:
        ImportError: the extra `privacy` is not installed; settings that need it are refused at start.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    known = _memory.get(digest, text)
    if known is None:
        known = _mask(text)
        _memory.put(digest, known)
    return known


def mask_json(value: Any) -> tuple[Any, frozenset[str]]:
    """A JSON value with every text in it masked, and the kinds found; the value itself if there is nothing.

    A text in a field that is called like a secret is one; `arguments` that are written as JSON are read.
    """
    kinds: set[str] = set()
    masked = _walk(value, "", kinds, 0)
    return (masked, frozenset(kinds)) if kinds else (value, frozenset())


def _walk(value: Any, name: str, kinds: set[str], depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, name, kinds, depth)
    if depth > _DEEPEST and isinstance(value, Mapping | list | tuple):
        try:
            found = mask(orjson.dumps(value).decode())
        except orjson.JSONEncodeError:  # too deep to be written, and so to be read: it goes altogether
            kinds.add("secret")
            return "[secret]"
        kinds |= found.kinds
        return found.text if found.kinds else value
    if isinstance(value, Mapping):
        return {key: _walk(one, str(key), kinds, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(one, name, kinds, depth + 1) for one in value]
    return value


def _text(text: str, name: str, kinds: set[str], depth: int) -> str:
    from . import sensitive

    if name in _STRUCTURE or (name in _FILES and text.startswith("data:")):
        return text
    if name and sensitive.names_a_secret(name) and sensitive.is_a_value(text):
        if not _PLACEHOLDER.fullmatch(text):
            kinds.add("secret")
            return "[secret]"
        return text
    if name == "arguments" and text.lstrip().startswith("{"):
        try:
            read = orjson.loads(text)
        except orjson.JSONDecodeError:
            read = None  # cut off, or no JSON: a text like any other
        if read is not None:
            inner: set[str] = set()
            masked = _walk(read, "", inner, depth + 1)
            kinds |= inner
            return orjson.dumps(masked).decode() if inner else text
    found = mask(text)
    kinds |= found.kinds
    return found.text


def _mask(text: str) -> Masked:
    """Again until nothing new shows: what stands beside a placeholder may read differently than before."""
    kinds: set[str] = set()
    for _ in range(PASSES):
        text, found = _once(text)
        if not found:
            return Masked(text, frozenset(kinds))
        kinds |= found
    return Masked("[secret]", frozenset(kinds))


def _once(text: str) -> tuple[str, frozenset[str]]:
    from .sensitive import spans

    found = [
        span._replace(start=start, end=end)
        for span in sorted(spans(text))
        for start, end in _outside(text, span.start, span.end)
    ]
    pieces: list[str] = []
    kinds = set()
    done = 0
    for span in sorted(found):
        if span.start < done:
            if span.end > done:  # what overlaps goes with what began first
                done = span.end
            continue
        pieces += (text[done : span.start], f"[{span.kind}]")
        kinds.add(span.kind)
        done = span.end
    return "".join([*pieces, text[done:]]), frozenset(kinds)


def _outside(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [start, end) that are no placeholder and hold a letter or digit."""
    edges = [start]
    for held in _PLACEHOLDER.finditer(text, max(0, start - 8), min(len(text), end + 8)):
        if held.end() > start and held.start() < end:
            edges += [max(held.start(), start), min(held.end(), end)]
    edges.append(end)
    parts = list(pairwise(edges))[::2]
    return [(left, right) for left, right in parts if any(map(str.isalnum, text[left:right]))]
