"""A second client that keeps sending requests through every round and swap, and counts failures."""

import threading
from types import TracebackType

from openai import APIError, OpenAI

from .conversation import MODEL, Tally

PAUSE_S = 1.5  # between requests: a person who is always there, not a load test


class Bystander:
    """Streams short answers, one after the other, until the block is left."""

    def __init__(self, openai: OpenAI) -> None:
        self.tally = Tally()
        self._openai = openai
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_asking, name="bystander")

    def __enter__(self) -> "Bystander":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _keep_asking(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self.tally.count(requests=1)
            if not self._one():
                self.tally.count(failed=1)

    def _one(self) -> bool:
        finished = False
        try:
            stream = self._openai.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "Name a colour."}],
                max_tokens=8,
                stream=True,
                extra_headers={"X-Afterturn-Train": "off"},
            )
            for chunk in stream:
                finished = finished or bool(chunk.choices and chunk.choices[0].finish_reason)
        except APIError:
            return False
        return finished
