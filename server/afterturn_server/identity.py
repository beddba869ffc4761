"""The base model behind the engine: the name it serves, how much it can read, and its hash."""

from dataclasses import dataclass
from pathlib import Path

from afterturn_core.base_model import model_hash, model_location
from afterturn_core.errors import EngineError
from afterturn_core.settings import Settings

from .answers import Json


@dataclass(frozen=True)
class EngineIdentity:
    """What the engine said about its base model; `max_model_len` counts tokens."""

    served_name: str
    max_model_len: int | None
    model_hash: str


def read_identity(settings: Settings, models: Json) -> EngineIdentity:
    """The identity from an engine's `/v1/models`.

    The hash is over the files that `AFTERTURN_MODEL` names where they are on this machine, else over
    the root that the engine reports.

    Raises:
        EngineError: the engine lists no base model.
    """
    for card in models.get("data", ()):
        if card.get("parent") is None:
            location = model_location(settings)
            if not Path(location).is_dir() and card.get("root"):
                location = str(card["root"])
            return EngineIdentity(str(card["id"]), card.get("max_model_len"), model_hash(location))
    raise EngineError("the engine lists no base model")
