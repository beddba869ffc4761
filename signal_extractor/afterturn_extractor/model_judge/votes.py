"""Several votes into one verdict."""

from collections import Counter
from collections.abc import Sequence

from afterturn_extractor.evidence import Verdict


def plurality(votes: Sequence[Verdict | None]) -> Verdict | None:
    """The verdict that most votes name; None counts as a vote for none. A tie for the first place, or no
    votes at all, is no verdict: it is never 0.
    """
    counts = Counter(votes).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]
