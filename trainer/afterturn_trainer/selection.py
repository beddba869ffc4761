"""Which turns of a round become samples, and a count of everything that was left out or shortened."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from afterturn_core.errors import RoundFailed
from afterturn_trainer.consistency import Agreement
from afterturn_trainer.faults import Misaligned
from afterturn_trainer.load_turns import LoadedTurn, RoundInput
from afterturn_trainer.sample import Ids, Sample, cut_middle, make_sample, verdict_baseline
from afterturn_trainer.settings import LearningSettings
from afterturn_trainer.teacher_prompt import Tokenizer, teacher_prompt

CUT_MARK = "\n[…]\n"
SMALLEST_PROMPT = 64  # tokens a prompt keeps whatever the reply's length: the reply is never cut


@dataclass(frozen=True)
class Counts:
    """Turns (and tokens) of the round that were not used as they are.

    other_model: sampled under another base model. unsampled: no token was sampled. disagreeing: engine and
    trainer differ. unchecked: their adapter is gone, so they lose the verdict term. stale: sampled too long
    ago for the verdict term. cut: turns whose older history was cut, cut_tokens how much of it.
    unplaced_hints: hints for which no place in the prompt was found. misaligned: ids and log-probabilities do
    not fit together.
    """

    other_model: int = 0
    unsampled: int = 0
    disagreeing: int = 0
    unchecked: int = 0
    stale: int = 0
    cut: int = 0
    cut_tokens: int = 0
    unplaced_hints: int = 0
    misaligned: int = 0


@dataclass(frozen=True)
class Selection:
    """A round's samples, oldest first."""

    samples: tuple[Sample, ...]
    counts: Counts


def of_this_model(turns: Sequence[LoadedTurn], model_hash: str) -> tuple[tuple[LoadedTurn, ...], Counts]:
    """Turns that were sampled under this base model and have tokens to learn from.

    Raises:
        RoundFailed: there is none.
    """
    same = [turn for turn in turns if turn.model_hash == model_hash]
    kept = tuple(turn for turn in same if turn.reply_ids)
    if turns and not same:
        raise RoundFailed("every turn of this round was sampled under another base model")
    if not kept:
        raise RoundFailed("no turn of this round has a sampled token")
    return kept, Counts(other_model=len(turns) - len(same), unsampled=len(same) - len(kept))


def select(
    taken: RoundInput,
    turns: Sequence[LoadedTurn],
    counts: Counts,
    agreed: Agreement,
    tokenizer: Tokenizer,
    settings: LearningSettings,
) -> Selection:
    """Samples of the turns on which engine and trainer agree."""
    baseline = verdict_baseline(taken.earlier_verdicts, settings.baseline_window, settings.baseline_shrink)
    mark = tuple(tokenizer.encode(CUT_MARK, add_special_tokens=False))
    samples = []
    for turn in turns:
        if turn.turn_id in agreed.disagreeing:
            counts = replace(counts, disagreeing=counts.disagreeing + 1)
            continue
        unchecked = turn.turn_id in agreed.unchecked
        too_old = turn.versions_back is None or turn.versions_back > settings.stale_versions
        prompt_ids, cut = shorten(turn, mark, settings.max_train_tokens)
        placed = [teacher_prompt(prompt_ids, turn.told, hint, tokenizer) for hint in turn.hints]
        teachers = [prompt for prompt in placed if prompt is not None]
        counts = replace(
            counts,
            unchecked=counts.unchecked + unchecked,
            stale=counts.stale + too_old,
            cut=counts.cut + (cut > 0),
            cut_tokens=counts.cut_tokens + cut,
            unplaced_hints=counts.unplaced_hints + len(placed) - len(teachers),
        )
        try:
            sample = make_sample(
                turn.turn_id,
                prompt_ids,
                turn.reply_ids,
                turn.logprobs,
                verdict=turn.verdict,
                baseline=baseline,
                weight=turn.weight,
                teacher_prompts=teachers,
                stale=unchecked or too_old,
            )
        except Misaligned:  # one turn that cannot be used must not stop its agent's training for good
            counts = replace(counts, misaligned=counts.misaligned + 1)
            continue
        samples.append(sample)
    return Selection(tuple(samples), counts)


def shorten(turn: LoadedTurn, mark: Ids, max_tokens: int) -> tuple[Ids, int]:
    """(prompt that fits with the whole reply, ids cut from its middle)."""
    return cut_middle(turn.prompt_ids, max(max_tokens - len(turn.reply_ids), SMALLEST_PROMPT), mark)
