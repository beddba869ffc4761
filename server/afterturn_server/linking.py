"""Recognising a conversation in what clients send back: a digest of the history they cannot help keeping.

Clients strip texts, re-space tool arguments, rewrite ids, drop reasoning and wrap what people say. What
survives all of them is: who said it, the text without its ends and envelope, and the calls.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import orjson

from afterturn_core.lifecycle import Piece
from afterturn_core.synthetic import answers_note, is_filler, is_synthetic, strip_envelope

from .answers import Json
from .retold import Retold, read_result, read_retold

# What a client says instead of a reply that it took out of its history.
DROPPING_PATTERNS = frozenset({"mini_tool_error"})

_THINKING, _THOUGHT = "<think>", "</think>"
_START = hashlib.sha256(b"").hexdigest()
_TELLING_ID = 12  # letters and digits of a call's id from which on no other conversation has it by chance
_INSTRUCTIONS = 400  # characters of system text that tell what a client wants
_TELLING_TEXT = 32  # characters of a reply from which on it is hardly said twice


@dataclass(frozen=True)
class Call:
    """One tool call: letters and digits of its id, its name, its arguments in one spelling."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Entry:
    """One message as far as it is the same in every client's memory."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()
    answers: str = ""

    def digest_after(self, before: str) -> str:
        """Chain key of a history that ended in `before` and goes on with this entry."""
        calls = [(call.id, call.name, call.arguments) for call in self.calls]
        return hashlib.sha256(
            before.encode() + orjson.dumps((self.role, self.text, calls, self.answers))
        ).hexdigest()

    @property
    def reply_key(self) -> str:
        """Key of a reply whatever came before it: the ids of its calls, or all of it if those say little."""
        ids = [call.id for call in self.calls]
        return call_key(ids) or self.digest_after("reply")

    @property
    def telling(self) -> bool:
        """Whether this reply alone tells its conversation from others."""
        return call_key([call.id for call in self.calls]) is not None or len(self.text) >= _TELLING_TEXT


def call_key(ids: Iterable[str]) -> str | None:
    """Key of a reply by the ids of its calls; None if one of them may be another's, or there are none."""
    ordered = sorted(ids)
    if not ordered or any(len(one) < _TELLING_ID for one in ordered):
        return None
    return hashlib.sha256(orjson.dumps(("calls", ordered))).hexdigest()


@dataclass(frozen=True)
class Trace:
    """What a history says of one reply, wherever it stands: `position` is that of the entry before what
    followed it."""

    position: int
    reply_key: str
    telling: bool


@dataclass(frozen=True)
class History:
    """A request's messages, normalised; `keys[i]` is the chain key through `entries[i]`.

    `instructions` is the beginning of the first system or developer text, which is in no key.
    """

    entries: tuple[Entry, ...]
    keys: tuple[str, ...]
    instructions: str = ""

    @property
    def key(self) -> str:
        """Chain key of the whole."""
        return self.keys[-1] if self.keys else _START

    @property
    def replies(self) -> tuple[int, ...]:
        """Positions of assistant messages, first to last."""
        return tuple(index for index, entry in enumerate(self.entries) if entry.role == "assistant")

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Replies by themselves, last to first, for histories whose beginning was rewritten.

        Results of calls whose reply is not there any more count for it.
        """
        found: list[Trace] = []
        last = len(self.entries)
        for position in reversed(range(len(self.entries))):
            entry = self.entries[position]
            if entry.role == "assistant" and (entry.text or entry.calls):
                found.append(Trace(position, entry.reply_key, entry.telling))
            if entry.role != "tool":
                last = position
            elif position == 0 or self.entries[position - 1].role not in ("tool", "assistant"):
                key = call_key(entry.answers for entry in self.entries[position:last])
                if key is not None:
                    found.append(Trace(position - 1, key, True))
        return tuple(found)

    def key_with(self, reply: Entry) -> str:
        """Chain key of this history and a reply to it: what the next request will be found by.

        A history that ends in the assistant's own words is one reply with what it is continued by.
        """
        if not self.entries or self.entries[-1].role != "assistant":
            return reply.digest_after(self.key)
        before = self.keys[-2] if len(self.keys) > 1 else _START
        return _together(self.entries[-1], reply).digest_after(before)

    def pieces_after(self, position: int) -> tuple[Piece, ...]:
        """What came between the reply at `position` and the next one: tool results first, then users.

        What a client says about a reply that it dropped comes after that one.
        """
        between: list[Entry] = []
        for entry in self.entries[position + 1 :]:
            if entry.role == "assistant" or (between and _drops(entry)):
                break
            between.append(entry)
        tools = [Piece("tool", entry.text) for entry in between if entry.role == "tool"]
        users = [Piece("user", entry.text) for entry in between if entry.role == "user"]
        return (*tools, *users)

    @property
    def dropped_reply(self) -> int | None:
        """Where the prompt ends whose reply the client threw away, if it says so at the end."""
        for position in reversed(range(1, len(self.entries))):
            entry = self.entries[position]
            if entry.role == "assistant":
                return None
            if _drops(entry):
                return position - 1
        return None

    @property
    def last_user_text(self) -> str:
        """The last thing said in the user role; empty if nothing was."""
        return next((entry.text for entry in reversed(self.entries) if entry.role == "user"), "")


def _drops(entry: Entry) -> bool:
    return entry.role == "user" and is_synthetic(entry.text) in DROPPING_PATTERNS


def read_history(messages: Sequence[Json]) -> History:
    """Normalise messages and chain them."""
    entries = normalise(messages)
    keys: list[str] = []
    key = _START
    for entry in entries:
        key = entry.digest_after(key)
        keys.append(key)
    return History(entries, tuple(keys), _instructions(messages))


def _instructions(messages: Iterable[Json]) -> str:
    for message in messages:
        if message.get("role") in ("system", "developer"):
            return text_of(message.get("content"))[:_INSTRUCTIONS].strip()
    return ""


def normalise(messages: Iterable[Json]) -> tuple[Entry, ...]:
    """Entries of messages, without those that only a client would miss.

    Left out: system and developer texts, user messages that are nothing but a client's envelope, what a
    client says in the assistant's place, and its notes with the answers it gave to them itself. Tool
    results that follow one another are ordered by their call, since clients send them as they come. A reply
    that a client keeps in several messages is one.
    """
    entries: list[Entry] = []
    results: list[Entry] = []
    called = False
    for message in messages:
        text = text_of(message.get("content"))
        retold = read_retold(text) if message.get("role") == "assistant" else None
        entry = _entry(message, text, retold)
        if entry is None:
            continue
        result = read_result(text.strip()) if called else None
        if result is not None and entry.role == "user":
            results.append(Entry("tool", result[0]))
            if not result[1]:
                continue
            entry = Entry("user", strip_envelope(result[1]))
        called = retold is not None and retold.called
        if entry.role == "tool":
            results.append(entry)
            continue
        entries += _in_order(results)
        results = []
        before = entries[-1] if entries else None
        told = before is not None and before.role == "user" and answers_note(before.text, entry.text)
        if told and entry.role == "assistant" and not entry.calls:
            entries.pop()
            continue
        entries.append(entry)
    return (*_replies_together(entries), *_in_order(results))


def _replies_together(entries: Iterable[Entry]) -> Iterator[Entry]:
    for role, same in groupby(entries, lambda entry: entry.role):
        if role == "assistant":
            yield _together(*same)
        else:
            yield from same


def _together(*said: Entry) -> Entry:
    text = "\n".join(entry.text for entry in said if entry.text)
    return Entry("assistant", text, tuple(call for entry in said for call in entry.calls))


def reply_entry(reply: Json) -> Entry:
    """The entry of a reply as the engine gave it."""
    said = spoken(read_retold(text_of(reply.get("content"))).text)
    return Entry("assistant", said, _calls(reply.get("tool_calls") or ()))


def _in_order(results: Sequence[Entry]) -> list[Entry]:
    return sorted(results, key=lambda entry: entry.answers)


def _entry(message: Json, text: str, retold: Retold | None) -> Entry | None:
    """The entry of a message with this text; `retold` is what an assistant's text holds."""
    if retold is not None:
        said, calls = spoken(retold.text), _calls(message.get("tool_calls") or retold.calls)
        return None if not calls and is_filler(said) else Entry("assistant", said, calls)
    role = message.get("role")
    if role in ("tool", "function"):
        return Entry("tool", text.strip(), answers=_letters(message.get("tool_call_id")))
    if role == "user":
        said = strip_envelope(text)
        return Entry("user", said) if said else None
    return None


def text_of(content: object) -> str:
    """The text of a message's content; parts are joined by a newline, as engines do.

    Parts that are not text stand for themselves by a digest.
    """
    if isinstance(content, str):
        return content.replace("\0", "\ufffd")  # PostgreSQL stores no NUL, and tools print files
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"].replace("\0", "\ufffd"))
        elif isinstance(part, dict) and part.get("type") not in ("thinking", "reasoning"):
            bare = {name: value for name, value in part.items() if name != "cache_control"}
            digest = hashlib.sha256(orjson.dumps(bare, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
            texts.append(f"[{part.get('type')} {digest}]")
    return "\n".join(texts)


def spoken(text: str) -> str:
    """An assistant's text without thoughts, which templates and clients drop, and without its ends."""
    kept: list[str] = []
    position = 0
    while (start := text.find(_THINKING, position)) >= 0:
        end = text.find(_THOUGHT, start)
        if end < 0:
            break  # nor does any later one end: looking on from each would take for ever
        kept.append(text[position:start])
        position = end + len(_THOUGHT)
    return "".join([*kept, text[position:]]).strip()


def _calls(made: Iterable[object]) -> tuple[Call, ...]:
    calls = []
    for call in made:
        given: Json = call if isinstance(call, dict) else {}
        function = given.get("function")
        if isinstance(function, dict):
            arguments = _arguments(function.get("arguments"))
            calls.append(Call(_letters(given.get("id")), str(function.get("name", "")), arguments))
    return tuple(calls)


def _arguments(value: object) -> str:
    try:
        read = orjson.loads(value) if isinstance(value, str) else value
        return orjson.dumps(read, option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # no JSON, or nested too deeply to be written
        return str(value).strip()


def _letters(value: object) -> str:
    return "".join(character for character in str(value or "") if character.isascii() and character.isalnum())
