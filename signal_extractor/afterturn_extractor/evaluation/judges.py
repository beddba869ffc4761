"""The judges that can be evaluated, by the names that the settings use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from afterturn_core.database import Database
from afterturn_core.settings import Settings
from afterturn_extractor import rules
from afterturn_extractor.judging import Judge
from afterturn_extractor.model_judge.judge import ModelJudge, judge_model

NAMES: Final = ("rules", "openai")
_ASKED_AT_ONCE: Final = 4  # rows whose votes wait for the model's server


@dataclass(frozen=True, slots=True)
class Opened:
    """A judge that is ready, how it is called in a report, and how many rows it takes at once."""

    judge: Judge
    title: str
    at_once: int

    @property
    def is_slow(self) -> bool:
        """Whether it waits for a server."""
        return self.at_once > 1


@contextmanager
def opened(name: str, settings: Settings) -> Iterator[Opened]:
    """The judge of that name. What a model answered is kept in `evaluation.db` in the data directory, apart
    from the service's database, so that a re-run asks only what was not answered; no agent's budget counts.

    Raises:
        SettingsError: a model that must not judge.
        ValueError: a name that is not in `NAMES`.
    """
    if name not in NAMES:
        raise ValueError(f"no judge {name}: {' or '.join(NAMES)}")
    if name == "rules":
        yield Opened(rules.judge, "rules", 1)
        return
    database = Database(f"sqlite:///{settings.data_dir.resolve() / 'evaluation.db'}")
    try:
        judge = ModelJudge(settings, database)
        try:
            database.migrate()
            yield Opened(judge, f"{judge_model(settings)}, {settings.judge_votes} votes", _ASKED_AT_ONCE)
        finally:
            judge.close()
    finally:
        database.close()
