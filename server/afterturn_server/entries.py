"""What a transaction enters of several exchanges: gathered first, then written table by table."""

from sqlalchemy import bindparam, insert, update
from sqlmodel import Session

from afterturn_core.columns import utc_now
from afterturn_core.deposit import Deposit
from afterturn_core.models import Conversation, OriginalRequest, Turn

from .answers import Json
from .place import Place
from .sessions import named_session

_SESSIONS = Conversation.__table__  # type: ignore[attr-defined]
_ADD_SESSIONS = insert(_SESSIONS)
_ADD_TURNS = insert(Turn.__table__)  # type: ignore[attr-defined]
_ADD_ORIGINALS = insert(OriginalRequest.__table__)  # type: ignore[attr-defined]
_SEEN = (
    update(_SESSIONS)
    .where(_SESSIONS.c.id.in_(bindparam("sessions", expanding=True)))
    .values(last_seen_at=bindparam("now"), settled=False, ended_at=None)
    .returning(_SESSIONS.c.id)
)


class Entries:
    """Rows of turns and of what they need, of one transaction; nothing is there before `write`.

    Plain rows: building mapped objects would take longer than everything else about them.
    """

    def __init__(self, session: Session) -> None:
        self.deposit = Deposit(session)
        self.turns: list[Json] = []
        self.originals: list[Json] = []
        self._session = session
        self._places: dict[str, Json] = {}
        self._expected: set[str] = set()

    def open_session(self, agent_id: str, key_id: str, place: Place) -> str:
        """See to it that the session is there and awake; returns its id.

        Two first requests under one name at once meet here: the second joins the first one's session.
        """
        session_id, expected = place.session_id, not place.new_session
        if place.new_session and place.external_id is not None:
            self.write()  # one of that name may be among the entries
            named = named_session(self._session, key_id, place.external_id)
            if named is not None:
                session_id, expected = named.id, True
        if expected:
            self._expected.add(session_id)
        row = {"id": session_id, "agent_id": agent_id, "key_id": key_id, "external_id": place.external_id}
        self._places.setdefault(session_id, row)
        return session_id

    def write(self) -> None:
        """Insert everything, in the order in which it points to one another."""
        self.deposit.write()
        self._write_sessions()
        connection = self._session.connection()
        # In this order: a later choice of a reply points to the first.
        if self.turns:
            connection.execute(_ADD_TURNS, self.turns)
        if self.originals:
            connection.execute(_ADD_ORIGINALS, self.originals)
        self.turns, self.originals = [], []

    def _write_sessions(self) -> None:
        """Wake those that are there and add the others; one that was expected may have been erased."""
        connection, now = self._session.connection(), utc_now()
        found: set[str] = set()
        if self._expected:
            asked = {"sessions": sorted(self._expected), "now": now}
            found = set(connection.execute(_SEEN, asked).scalars())
        times = {"created_at": now, "last_seen_at": now, "settled": False}
        added = [{**row, **times} for session_id, row in self._places.items() if session_id not in found]
        if added:
            connection.execute(_ADD_SESSIONS, added)
        self._places, self._expected = {}, set()
