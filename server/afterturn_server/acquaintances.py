"""Who was served lately, for the time when nobody can be looked up."""

from collections import OrderedDict
from dataclasses import dataclass

from afterturn_core.keys import digest

from .caller import Caller
from .outage import away
from .resolution import Resolved

MOST = 10_000


@dataclass(frozen=True)
class Acquaintance:
    """How a key's last request for a model was admitted."""

    caller: Caller
    resolved: Resolved
    model_hash: str


class Acquaintances:
    """The latest admission of each key and model; of keys only hashes are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Acquaintance] = OrderedDict()

    def note(self, key: str, model: str, found: Acquaintance) -> None:
        """Remember one, and forget the one not seen for longest when there are too many."""
        place = (digest(key), model)
        self._known[place] = found
        self._known.move_to_end(place)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def forget(self, key: str) -> None:
        """A key that was refused is no acquaintance any more."""
        hashed = digest(key)
        for place in [place for place in self._known if place[0] == hashed]:
            del self._known[place]

    def find(self, key: str, model: str) -> Acquaintance:
        """The latest admission of this key and model.

        Raises:
            DatabaseAway: there was none, and whether there may be one cannot be looked up.
        """
        known = self._known.get((digest(key), model))
        if known is None:
            raise away()
        return known
