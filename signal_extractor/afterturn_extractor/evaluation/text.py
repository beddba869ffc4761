"""Text of rows as it may stand in a page: whatever it says, it stays text."""

import html
from typing import Final

_LEFT_OUT: Final = "\N{HORIZONTAL ELLIPSIS}"


def shown(text: str, at_most: int = 2_000) -> str:
    """`text` escaped for an element or a quoted attribute, cut to `at_most` characters.

    Control characters and those that turn the direction of writing around are replaced, so that no text can
    pass for something else than it is.
    """
    cut = text if len(text) <= at_most else text[:at_most] + _LEFT_OUT
    return html.escape("".join(map(_visible, cut)))


def _visible(letter: str) -> str:
    return letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
