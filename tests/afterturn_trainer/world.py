"""An install at test size: a migrated database, one agent, and turns that an engine really sampled."""

from collections.abc import Sequence
from pathlib import Path

from sqlmodel import select

from afterturn_core import lifecycle
from afterturn_core.base_model import model_hash
from afterturn_core.columns import utc_now
from afterturn_core.database import Database
from afterturn_core.engine_client import EngineClient
from afterturn_core.history import pack_ids, pack_logprobs, store_content, store_history, store_prompt
from afterturn_core.ids import new_id
from afterturn_core.keys import USER_SCOPES, add_key
from afterturn_core.lifecycle import RoundPlan, SignalDraft
from afterturn_core.models import Adapter, Agent, Conversation, Round, Turn
from afterturn_core.settings import Settings

LEARNING = {"learning_rate": 2e-3, "min_hint_effect": 0.0, "seed": 1}


class World:
    """Everything a round needs around it."""

    def __init__(self, folder: Path, model: Path, engine_url: str, **changes: object) -> None:
        wanted = {
            "data_dir": folder,
            "model": str(model),
            "engine_url": engine_url,
            "lease_s": 30.0,
        } | changes
        self.settings = Settings.model_validate(wanted)
        self.hash = model_hash(str(model))
        self.engine = EngineClient(engine_url)
        self.database = Database(self.settings.effective_database_url)
        self.database.migrate()
        with self.database.write() as session:
            agent = Agent(id=new_id("agent"), name=new_id("a").replace("_", "-"))
            session.add(agent)
            session.flush()
            _, key = add_key(session, agent, USER_SCOPES)
            conversation = Conversation(id=new_id("session"), agent_id=agent.id, key_id=key.id)
            session.add(conversation)
        self.agent_id, self.agent = agent.id, agent.name
        self.key_id, self.session_id = key.id, conversation.id

    def settings_with(self, **changes: object) -> Settings:
        """The same install and agent under other settings."""
        return Settings.model_validate(self.settings.model_dump() | changes)

    def close(self) -> None:
        self.engine.close()
        self.database.close()

    def live(self) -> Adapter | None:
        with self.database.read() as session:
            live_id = session.get_one(Agent, self.agent_id).live_adapter_id
            return None if live_id is None else session.get_one(Adapter, live_id)

    def adapters(self) -> list[Adapter]:
        with self.database.read() as session:
            rows = session.exec(select(Adapter).where(Adapter.agent_id == self.agent_id)).all()
            return sorted(rows, key=lambda row: row.version)

    def turn(
        self,
        text: str,
        verdict: int | None,
        hints: tuple[str, ...] = (),
        *,
        seed: int = 0,
        tokens: int = 12,
        held_out: bool = False,
        logprob_error: float = 0.0,
        model_hash: str | None = None,
    ) -> Turn:
        """Have the live adapter answer, store the turn as the gateway does, and judge it."""
        live = self.live()
        name = "base" if live is None else live.name
        messages = [{"role": "user", "content": text}]
        reply = self.engine.chat(name, messages, max_tokens=tokens, temperature=1.0, seed=seed)
        return self.store(
            text,
            reply.prompt_token_ids,
            reply.token_ids,
            [value + logprob_error for value in reply.logprobs],
            reply.finish_reason,
            verdict,
            hints,
            held_out=held_out,
            model_hash=model_hash,
        )

    def store(
        self,
        text: str,
        prompt_ids: Sequence[int],
        reply_ids: Sequence[int],
        logprobs: Sequence[float],
        finish_reason: str | None,
        verdict: int | None,
        hints: tuple[str, ...] = (),
        *,
        held_out: bool = False,
        model_hash: str | None = None,
    ) -> Turn:
        """A judged turn of the live adapter."""
        live = self.live()
        with self.database.write() as session:
            turn = Turn(
                id=new_id("turn"),
                agent_id=self.agent_id,
                key_id=self.key_id,
                session_id=self.session_id,
                response_id=new_id("chatcmpl"),
                kind="main",
                kind_reason="default",
                state="observed",
                protocol="chat",
                adapter="base" if live is None else live.name,
                adapter_version=None if live is None else live.version,
                model_hash=model_hash or self.hash,
                created_at=utc_now(),
                observed_at=utc_now(),
                finish_reason=finish_reason,
                link_key=new_id("link"),
                prompt_key=new_id("prompt"),
                history_digest=store_history(session, [{"role": "user", "content": text}]),
                reply_digest=store_content(session, {"role": "assistant", "content": "…"}),
                token_ids=pack_ids(reply_ids),
                logprobs=pack_logprobs(logprobs),
                prompt_tail=b"",
                prompt_tokens=0,
                completion_tokens=len(reply_ids),
                held_out=held_out,
            )
            store_prompt(session, turn, prompt_ids, None)
            session.add(turn)
            session.flush()
            draft = SignalDraft(verdict, "rules", (verdict,), "", tuple((hint, "rules") for hint in hints))
            lifecycle.save_signal(session, turn.id, draft, evidence_of=turn.observed_at)
        return turn

    def claim(self, objective: str = "hybrid", **learning: object) -> Round:
        with self.database.write() as session:
            agent = session.get_one(Agent, self.agent_id)
            return lifecycle.claim_round(
                session,
                agent,
                RoundPlan(objective=objective, max_turns=64, settings={**LEARNING, **learning}),
            )

    def round(self, round_id: str) -> Round:
        with self.database.read() as session:
            return session.get_one(Round, round_id)

    def turn_row(self, turn_id: str) -> Turn:
        with self.database.read() as session:
            return session.get_one(Turn, turn_id)
