"""Waiting for what happens by itself, with an end to it."""

import operator
from collections.abc import Callable

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed


def wait_until(holds: Callable[[], bool], what: str, *, patience_s: float, every_s: float = 0.1) -> None:
    """Look at once and then again and again until it holds; what `holds` raises ends it.

    Raises:
        TimeoutError: it did not happen within `patience_s`.
    """
    look = Retrying(
        retry=retry_if_result(operator.not_), stop=stop_after_delay(patience_s), wait=wait_fixed(every_s)
    )
    try:
        look(holds)
    except RetryError:
        raise TimeoutError(f"within {patience_s:g} s it did not happen: {what}") from None
