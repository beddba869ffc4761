"""A failed call that is put right two turns later, from the tables back into them."""

import json

from sqlmodel import col, select
from tests.stored_turns import StoredTurns

from afterturn_core import lifecycle
from afterturn_core.erasure import erase_turns
from afterturn_core.lifecycle import Piece, RoundPlan
from afterturn_core.models import Agent, Signal, Turn
from afterturn_core.sources import sources_of
from afterturn_extractor import rules
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.judging import judge_turn

REQUEST = "What is in the harbour's file?"
ERROR, FOUND = "Error: no such file or directory", "Three cranes on the northern side."
HINT = 'Call read_file with {"path": "notes/harbour.txt"}'


class Story:
    """A request, a call that fails (`wrong`), another that succeeds (`right`), and the answer (`end`)."""

    def __init__(self, stored: StoredTurns) -> None:
        self.stored = stored
        session_id = stored.session()
        wrong, right = arguments("notes/hafen.txt"), arguments("notes/harbour.txt")
        self.wrong = stored.turn(
            request=REQUEST, reply="", called=("read_file", wrong), session_id=session_id
        )
        after = [*call(wrong), result(ERROR)]
        self.right = stored.turn(
            request=REQUEST,
            reply="",
            called=("read_file", right),
            session_id=session_id,
            parent_id=self.wrong,
            after=after,
        )
        self.told(self.wrong, self.right, ERROR)
        after = [*after, *call(right), result(FOUND)]
        self.end = stored.turn(
            request=REQUEST, reply=FOUND, session_id=session_id, parent_id=self.right, after=after
        )

    def told(self, turn_id: str, source_id: str, text: str) -> None:
        with self.stored.database.write() as session:
            lifecycle.observe(session, turn_id, source_id, [Piece("tool", text)])

    def goes_on(self) -> None:
        """The second call's result is in the history of the last turn."""
        self.told(self.right, self.end, FOUND)

    def judge(self, turn_id: str) -> str | None:
        return judge_turn(self.stored.database, rules.judge, turn_id)

    def signals(self, turn_id: str) -> list[tuple[int | None, list[str]]]:
        with self.stored.database.read() as session:
            found = select(Signal).where(Signal.turn_id == turn_id).order_by(col(Signal.revision))
            return [(one.verdict, [hint["text"] for hint in one.hints]) for one in session.exec(found)]


def arguments(path: str) -> str:
    return json.dumps({"path": path})


def call(written: str) -> list[dict[str, object]]:
    function = {"name": "read_file", "arguments": written}
    calls = [{"id": "call-1", "type": "function", "function": function}]  # as some clients send `call_1` back
    return [{"role": "assistant", "content": None, "tool_calls": calls}]


def result(text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": "call-1", "content": text}


def test_the_turn_that_failed_hears_how_it_was_put_right(stored: StoredTurns) -> None:
    story = Story(stored)
    assert story.judge(story.wrong) == "judged"
    story.goes_on()
    assert story.judge(story.right) == "judged"
    assert story.signals(story.wrong) == [(-1, []), (-1, [HINT])]
    assert stored.load(story.wrong).state == "judged"
    assert story.signals(story.right) == [(1, [])]


def test_one_that_is_not_judged_yet_gets_verdict_and_hint_at_once(stored: StoredTurns) -> None:
    story = Story(stored)
    story.goes_on()
    assert story.judge(story.right) == "judged"
    assert story.signals(story.wrong) == [(-1, [HINT])]
    assert story.judge(story.wrong) is None


def test_what_is_judged_again_tells_it_once(stored: StoredTurns) -> None:
    story = Story(stored)
    story.judge(story.wrong)
    story.goes_on()
    for _ in range(2):
        story.judge(story.right)
        stored.add_next_state(story.right, "Thank you, that is what I wanted to know.")
    assert len(story.signals(story.wrong)) == 2
    assert len(story.signals(story.right)) == 2


def test_a_turn_in_a_round_is_left_alone(stored: StoredTurns) -> None:
    story = Story(stored)
    story.judge(story.wrong)
    with stored.database.write() as session:
        agent = session.get_one(Agent, stored.agent_id)
        claimed = lifecycle.claim_round(session, agent, RoundPlan(objective="hybrid", max_turns=8))
    story.goes_on()
    story.judge(story.right)
    assert claimed.turn_ids == [story.wrong]
    assert stored.load(story.wrong).state == "claimed"
    assert story.signals(story.wrong) == [(-1, [])]


def test_erasing_the_turn_that_told_takes_the_hint_away(stored: StoredTurns) -> None:
    story = Story(stored)
    story.goes_on()
    story.judge(story.right)
    with stored.database.write() as session:
        erase_turns(session, [story.end])
    assert story.judge(story.wrong) == "judged"
    assert story.signals(story.wrong) == [(-1, [])]


def test_a_judge_does_not_see_it_and_praise_leaves_nothing_to_put_right(stored: StoredTurns) -> None:
    story = Story(stored)
    story.goes_on()
    story.judge(story.right)
    seen: list[Evidence] = []

    def look(evidence: Evidence) -> Judgement:
        seen.append(evidence)
        return Judgement(1, "judge", (1, 1, 1))

    stored.add_next_state(story.wrong, "Perfect, thank you.")
    judge_turn(stored.database, look, story.wrong)
    assert [part.role for part in seen[0].next_state] == ["tool", "user"]
    assert story.signals(story.wrong)[-1] == (1, [])


def test_an_empty_result_of_the_agents_own_query_is_put_right_too(stored: StoredTurns) -> None:
    wrong, right = (json.dumps({"sql": f"SELECT id FROM ships WHERE harbour = '{port}'"}) for port in "ab")
    session_id = stored.session()
    about: dict[str, object] = {"request": REQUEST, "reply": "", "session_id": session_id}
    failed = stored.turn(**about, called=("query", wrong))  # type: ignore[arg-type]
    after = [*call(wrong), result("[]")]
    better = stored.turn(**about, called=("query", right), parent_id=failed, after=after)  # type: ignore[arg-type]
    after = [*after, *call(right), result('[{"id": 7}]')]
    end = stored.turn(**about, parent_id=better, after=after)  # type: ignore[arg-type]
    with stored.database.write() as session:
        lifecycle.observe(session, failed, better, [Piece("tool", "[]")])
        lifecycle.observe(session, better, end, [Piece("tool", '[{"id": 7}]')])
    judge_turn(stored.database, rules.judge, better)
    with stored.database.read() as session:
        (told,) = session.exec(select(Signal).where(Signal.turn_id == failed)).all()
    assert [hint["text"] for hint in told.hints] == [f"Call query with {right}"]


def test_a_fix_is_the_tools_word_when_sources_are_counted(stored: StoredTurns) -> None:
    story = Story(stored)
    story.goes_on()
    story.judge(story.right)
    with stored.database.read() as session:
        found = sources_of(session, [session.get_one(Turn, story.wrong)])
    assert found == {story.wrong: "tool read_file"}
