"""Why a round fails; each reason is text a person can read in the round's report."""


class LearningFault(Exception):
    """The round cannot go on; its adapter must not be published. `str()` is the reason."""


class NonFinite(LearningFault):
    """A loss, gradient or weight is NaN or infinite."""


class NothingToLearn(LearningFault):
    """No turn carries a loss, or every gradient of a step is exactly zero."""


class Misaligned(LearningFault):
    """Arrays that describe the same tokens differ in length, or ids and log-probabilities are impossible."""
