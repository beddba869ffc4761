"""What a round reports must be storable, most of all when it went wrong."""

import json
import math

from afterturn_trainer.metrics import RoundMetrics
from afterturn_trainer.selection import Counts


def test_a_loss_that_is_not_a_number_can_still_be_reported() -> None:
    metrics = RoundMetrics(loss=[1.0, math.nan, math.inf], kl=math.nan, left_out=Counts(cut=2))
    stored = json.loads(json.dumps(metrics.as_json(), allow_nan=False))
    assert stored["loss"] == [1.0, None, None]
    assert stored["kl"] is None
    assert stored["left_out"]["cut"] == 2
