"""From token ids to text, one token at a time, never half a character."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

# Some decoders look at the token before (a leading space, say); a few prompt tokens give them that context.
_CONTEXT_TOKENS = 16
# No UTF-8 character spans more tokens than it has bytes.
_CHARACTER_BYTES = 4
_REPLACEMENT = "�"


class Detokenizer:
    """Incremental text of one reply; bytes of an unfinished character wait for the rest."""

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int], skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._stream = DecodeStream(ids=list(prompt_ids[-_CONTEXT_TOKENS:]), skip_special_tokens=self._skip)

    def add(self, token_id: int) -> str:
        """Text that this token completes, often "" in the middle of a character."""
        try:
            return self._stream.step(self._tokenizer, token_id) or ""
        except Exception as error:
            # The stream's only failure on valid ids: byte sequences that decode to less text than before.
            # Starting afresh loses no finished character.
            if not str(error).startswith("Invalid prefix"):
                raise
            self._stream = DecodeStream(skip_special_tokens=self._skip)
            return self._stream.step(self._tokenizer, token_id) or ""


def token_text(tokenizer: Tokenizer, token_id: int, before: Sequence[int]) -> str:
    """One token as text for log-prob listings.

    A token that ends inside a character is "", the token that completes the character carries it;
    `before` are the ids in front of it.
    """
    text = tokenizer.decode([token_id], skip_special_tokens=False)
    if not text.endswith(_REPLACEMENT):
        return text
    for length in range(1, min(_CHARACTER_BYTES, len(before)) + 1):
        context = list(before[-length:])
        joined = tokenizer.decode([*context, token_id], skip_special_tokens=False)
        if not joined.endswith(_REPLACEMENT):
            clean = tokenizer.decode(context, skip_special_tokens=False).rstrip(_REPLACEMENT)
            return joined[len(clean) :] if joined.startswith(clean) else text
    return ""
