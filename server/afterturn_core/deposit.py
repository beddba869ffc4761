"""Contents and histories on their way into the database: gathered for several turns, then written together,
since what a statement costs hardly depends on how many rows it carries."""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Executable, Table, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session

from .models import Content, HistoryNode

Json = dict[str, Any]
# SQLModel makes `__table__`, which its types do not say.
_NODES = HistoryNode.__table__  # type: ignore[attr-defined]
_CONTENTS = Content.__table__  # type: ignore[attr-defined]
_KNOWN_NODES = select(_NODES.c.digest).where(_NODES.c.digest.in_(bindparam("digests", expanding=True)))
_FEW, _LITTLE = 4, 4096  # messages and bytes of a history that has hardly begun
_LOOKUP = 500  # bound parameters in one statement, below SQLite's oldest limit of 999


class Deposit:
    """Rows that are named by what they hold, of one transaction; nothing is there before `write`.

    Digests that the methods return may be pointed to by rows that are inserted after `write`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._contents: dict[str, bytes] = {}
        self._nodes: dict[str, Json] = {}

    def content(self, value: object) -> str:
        """Add one JSON value; returns its digest."""
        body = orjson.dumps(value)
        digest = hashlib.sha256(body).hexdigest()
        self._add(digest, body)
        return digest

    def history(self, messages: Iterable[Json], known: str | None = None) -> str | None:
        """Add a list of messages as a chain; returns the digest of its last node, `None` for no messages.

        `known` is a node that is certainly there, like that of the turn which these messages go on from:
        where it is one of theirs, nobody has to look which are.
        """
        return self.chain([orjson.dumps(message) for message in messages], known)

    def chain(self, bodies: Sequence[bytes], known: str | None = None) -> str | None:
        """Like `history`, of pieces that are bytes already."""
        nodes: list[Json] = []
        previous: str | None = None
        for depth, body in enumerate(bodies):
            content_digest = hashlib.sha256(body).hexdigest()
            digest = node_digest(previous, content_digest)
            nodes.append(
                {"digest": digest, "previous": previous, "content_digest": content_digest, "depth": depth}
            )
            previous = digest
        for number in range(self._stored(bodies, nodes, known), len(nodes)):
            node = nodes[number]
            self._nodes[node["digest"]] = node
            self._add(node["content_digest"], bodies[number])
        return previous

    def write(self) -> None:
        """Insert what is not there yet.

        In one order everywhere: transactions that bring the same rows wait for one another and do not
        embrace. A node comes after the one before it.
        """
        if self._contents:
            rows = [{"digest": digest, "body": body} for digest, body in sorted(self._contents.items())]
            _insert_missing(self._session, _CONTENTS, rows)
        if self._nodes:
            ordered = sorted(self._nodes.values(), key=lambda node: (node["depth"], node["digest"]))
            _insert_missing(self._session, _NODES, ordered)
        self._contents, self._nodes = {}, {}

    def _add(self, digest: str, body: bytes) -> None:
        if digest not in self._contents:
            self._contents[digest] = zlib.compress(body)

    def _stored(self, bodies: Sequence[bytes], nodes: Sequence[Json], known: str | None) -> int:
        """How many nodes of a chain, from its beginning, need not be added."""
        if len(nodes) <= _FEW and sum(map(len, bodies)) <= _LITTLE:
            return 0  # putting them there, if they are not, takes less than asking first
        digests = [node["digest"] for node in nodes]
        if known in digests:
            return digests.index(known) + 1
        return self._first_unknown(digests)

    def _first_unknown(self, digests: Sequence[str]) -> int:
        """How many are there. One that is there implies all before it: look from the end."""
        for start in range(len(digests), 0, -_LOOKUP):
            chunk = digests[max(0, start - _LOOKUP) : start]
            asked = {"digests": list(chunk)}
            found = set(self._session.connection().execute(_KNOWN_NODES, asked).scalars())
            if found:
                return start - len(chunk) + sum(digest in found for digest in chunk)
        return 0


def node_digest(previous: str | None, content_digest: str) -> str:
    """What names a node: everything up to it."""
    return hashlib.sha256(f"{previous}/{content_digest}".encode()).hexdigest()


def _insert_missing(session: Session, table: Table, rows: Sequence[Json]) -> None:
    """Insert rows whose primary key is not there yet; equal keys mean equal rows."""
    connection = session.connection()
    connection.execute(_inserting(table, connection.dialect.name), list(rows))


@cache
def _inserting(table: Table, dialect_name: str) -> Executable:
    """The statement, built once: building costs more than running it."""
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    statement: Executable = dialect.insert(table).on_conflict_do_nothing()
    return statement
