"""Which turns become samples, what is cut, and that everything left out is counted."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from transformers import AutoTokenizer

from afterturn_core.errors import RoundFailed
from afterturn_trainer.consistency import Agreement
from afterturn_trainer.load_turns import LoadedTurn, RoundInput
from afterturn_trainer.selection import Counts, Selection, of_this_model, select
from afterturn_trainer.settings import LearningSettings
from afterturn_trainer.teacher_prompt import Tokenizer, Told

SETTINGS = LearningSettings(max_train_tokens=100)
AGREED = Agreement(1, frozenset(), frozenset(), 0.0)
REPLY = (300, 301, 2)


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return cast(Tokenizer, AutoTokenizer.from_pretrained(tiny_folder))


@pytest.fixture
def turn(tokenizer: Tokenizer) -> LoadedTurn:
    text = "<|im_start|>user\nhow far?<|im_end|>\n<|im_start|>assistant\n"
    prompt = tuple(tokenizer.encode(text, add_special_tokens=False))
    told = Told("user", "how far?")
    return LoadedTurn("t", "base", None, 0, "h", prompt, REPLY, (-1.0, -2.0, -0.5), told, -1, ("in km",))


def selected(
    turns: list[LoadedTurn], tokenizer: Tokenizer, agreed: Agreement = AGREED, earlier: tuple[int, ...] = ()
) -> Selection:
    taken = RoundInput("r", "a", "agent", "hybrid", {}, None, tuple(turns), (), earlier, None, {}, 1.0)
    return select(taken, turns, Counts(), agreed, tokenizer, SETTINGS)


def test_the_student_gets_the_stored_ids_and_the_teacher_the_hint(
    turn: LoadedTurn, tokenizer: Tokenizer
) -> None:
    """B20: the student's input is the same with and without hints."""
    hinted = selected([turn], tokenizer).samples[0]
    plain = selected([replace(turn, hints=())], tokenizer).samples[0]
    assert hinted.prompt_ids == plain.prompt_ids == turn.prompt_ids
    assert hinted.reply_ids == plain.reply_ids == turn.reply_ids
    assert plain.teacher_prompts == ()
    assert "in km" in tokenizer.decode(hinted.teacher_prompts[0], skip_special_tokens=False)
    assert "in km" not in tokenizer.decode(hinted.prompt_ids, skip_special_tokens=False)


def test_the_baseline_comes_from_earlier_verdicts(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    """Σr/(n + 16) over the last 64: 8 praises and 24 complaints make −16/48."""
    earlier = (1,) * 8 + (-1,) * 24
    assert selected([turn], tokenizer, earlier=earlier).samples[0].advantage == pytest.approx(-1 + 16 / 48)
    assert selected([turn], tokenizer).samples[0].advantage == -1.0


def test_an_outcomes_weight_reaches_the_advantage_and_no_hint(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    """A quarter of −1 + 16/48 = −2/3."""
    earlier = (1,) * 8 + (-1,) * 24
    whole = selected([turn], tokenizer, earlier=earlier).samples[0]
    quarter = selected([replace(turn, weight=0.25)], tokenizer, earlier=earlier).samples[0]
    assert quarter.advantage == pytest.approx(-1 / 6)
    assert replace(quarter, advantage=whole.advantage) == whole


@pytest.mark.parametrize(("versions_back", "stale"), [(0, False), (2, False), (3, True), (None, True)])
def test_old_turns_lose_their_verdict_and_keep_their_hints(
    turn: LoadedTurn, tokenizer: Tokenizer, versions_back: int | None, stale: bool
) -> None:
    found = selected([replace(turn, versions_back=versions_back)], tokenizer)
    assert found.samples[0].stale is stale
    assert found.counts.stale == stale
    assert len(found.samples[0].teacher_prompts) == 1


def test_what_cannot_be_checked_loses_its_verdict(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    found = selected([turn], tokenizer, Agreement(0, frozenset(), frozenset({"t"}), 0.0))
    assert found.samples[0].stale
    assert found.counts.unchecked == 1


def test_what_disagrees_is_left_out(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    found = selected([turn], tokenizer, Agreement(1, frozenset({"t"}), frozenset(), 0.0))
    assert found.samples == ()
    assert found.counts.disagreeing == 1


def test_long_history_is_cut_in_its_middle_and_the_reply_never(
    turn: LoadedTurn, tokenizer: Tokenizer
) -> None:
    system = tokenizer.encode("<|im_start|>system\n" + "the sea and " * 200, add_special_tokens=False)
    long = replace(turn, prompt_ids=(*system, *turn.prompt_ids), reply_ids=REPLY * 30, logprobs=(-1.0,) * 90)
    found = selected([long], tokenizer)
    sample = found.samples[0]
    assert sample.reply_ids == long.reply_ids
    assert len(sample.prompt_ids) == 64  # its smallest, since the reply alone takes 90 of 100
    assert sample.prompt_ids[:5] == long.prompt_ids[:5]
    assert sample.prompt_ids[-len(turn.prompt_ids) :] == turn.prompt_ids
    assert "[…]" in tokenizer.decode(sample.prompt_ids, skip_special_tokens=False)
    assert found.counts.cut == 1
    assert found.counts.cut_tokens > 300
    assert "in km" in tokenizer.decode(sample.teacher_prompts[0], skip_special_tokens=False)


def test_a_hint_without_a_place_is_counted(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    found = selected([replace(turn, told=Told("user", "never said that"))], tokenizer)
    assert found.samples[0].teacher_prompts == ()
    assert found.counts.unplaced_hints == 1


def test_other_models_and_empty_replies_are_left_out(turn: LoadedTurn) -> None:
    other, empty = replace(turn, model_hash="x"), replace(turn, reply_ids=(), logprobs=())
    kept, counts = of_this_model([turn, other, empty], "h")
    assert kept == (turn,)
    assert (counts.other_model, counts.unsampled) == (1, 1)
    with pytest.raises(RoundFailed, match="another base model"):
        of_this_model([other], "h")
    with pytest.raises(RoundFailed, match="no turn"):
        of_this_model([empty], "h")


def test_one_turn_that_does_not_fit_is_left_out_and_counted(turn: LoadedTurn, tokenizer: Tokenizer) -> None:
    """B33: skip and count, so that the rest of the round still trains."""
    broken = replace(turn, turn_id="broken", logprobs=(-1.0, 0.5, -0.5))
    found = selected([broken, turn], tokenizer)
    assert [sample.turn_id for sample in found.samples] == ["t"]
    assert found.counts.misaligned == 1
