"""A database with an agent, and turns in it as the gateway would have stored them."""

from datetime import datetime

from afterturn_core import lifecycle
from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.history import pack_ids, pack_logprobs, store_content, store_history, store_prompt
from afterturn_core.ids import new_id
from afterturn_core.keys import USER_SCOPES, add_agent, add_key
from afterturn_core.lifecycle import Piece
from afterturn_core.models import Agent, Conversation, Turn


class StoredTurns:
    """Makes turns of one agent; the ids of `agent_id` and of what the methods return are the rows'."""

    def __init__(self, url: str, name: str = "default") -> None:
        self.url = url
        self.database = Database(url)
        self.database.migrate()
        with self.database.write() as session:
            agent = add_agent(session, name)
            _, key = add_key(session, agent, USER_SCOPES)
            self.agent_id, self.key_id = agent.id, key.id

    def session(self, *, last_seen_at: datetime | None = None) -> str:
        """A conversation that was last heard of at `last_seen_at`, by default now."""
        with self.database.write() as session:
            row = Conversation(
                id=new_id("session"),
                agent_id=self.agent_id,
                key_id=self.key_id,
                last_seen_at=last_seen_at or utc_now(),
            )
            session.add(row)
            return row.id

    def turn(
        self,
        *,
        request: str = "What is a mutex?",
        reply: str = "A mutex is a lock. It keeps threads apart.",
        session_id: str | None = None,
        held_out: bool = False,
        called: tuple[str, str] | None = None,
        tools: list[dict[str, object]] | None = None,
        parent_id: str | None = None,
        after: list[dict[str, object]] | None = None,
    ) -> str:
        """An open turn of `session_id`, by default of a session of its own; `called`: name and arguments;
        `after`: messages behind the request, as they are where a turn goes on from `parent_id`."""
        message: dict[str, object] = {"role": "assistant", "content": reply}
        if called is not None:
            function = {"name": called[0], "arguments": called[1]}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        session_id = session_id or self.session()
        with self.database.write() as session:
            turn = Turn(
                id=new_id("turn"),
                agent_id=self.agent_id,
                key_id=self.key_id,
                session_id=session_id,
                response_id=new_id("chatcmpl"),
                kind="main",
                kind_reason="default",
                state="open",
                protocol="chat",
                adapter="base",
                model_hash="0" * 16,
                created_at=utc_now(),
                finish_reason="stop",
                link_key=new_id("link"),
                prompt_key=new_id("prompt"),
                parent_id=parent_id,
                history_digest=store_history(session, [{"role": "user", "content": request}, *(after or [])]),
                reply_digest=store_content(session, message),
                tools_digest=None if tools is None else store_content(session, tools),
                prompt_tail=b"",
                token_ids=pack_ids([7, 8, 9]),
                logprobs=pack_logprobs([-0.5, -1.0, -0.25]),
                prompt_tokens=0,
                completion_tokens=3,
                held_out=held_out,
            )
            store_prompt(session, turn, [1, 2, 3, 4], None)
            session.add(turn)
            return turn.id

    def candidate(self, turn_id: str, text: str) -> None:
        """A user's text that nothing has confirmed yet."""
        with self.database.write() as session:
            lifecycle.observe(session, turn_id, new_id("turn"), [Piece("user", text)])

    def observed(self, text: str, **about: object) -> str:
        """A turn after which the user said `text`, believed."""
        turn_id = self.turn(**about)  # type: ignore[arg-type]
        self.add_next_state(turn_id, text)
        return turn_id

    def add_next_state(self, turn_id: str, text: str, role: str = "user") -> None:
        """What the user said, or a tool returned, after a turn, believed."""
        with self.database.write() as session:
            lifecycle.believe(session, turn_id, new_id("turn"), [Piece(role, text)])

    def judged(self, verdict: int = -1) -> str:
        """A turn with a verdict."""
        turn_id = self.observed("That is too long.")
        with self.database.write() as session:
            draft = lifecycle.SignalDraft(verdict, "rules", (verdict,))
            stamp = session.get_one(Turn, turn_id).observed_at
            lifecycle.save_signal(session, turn_id, draft, evidence_of=stamp)
        return turn_id

    def load(self, turn_id: str) -> Turn:
        """The row as it is now."""
        with self.database.read() as session:
            return session.get_one(Turn, turn_id)

    def agent(self) -> Agent:
        """The agent's row as it is now."""
        with self.database.read() as session:
            return session.get_one(Agent, self.agent_id)
