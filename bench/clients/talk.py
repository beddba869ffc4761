"""The conversation that every client has: a tool call, a correction, a question."""

from dataclasses import dataclass

MARK = "afterturn-"  # begins every word that tells conversations apart


@dataclass(frozen=True)
class Talk:
    """What the user says in one conversation, `word` being in the first message and in no other."""

    word: str

    @property
    def said(self) -> tuple[str, str, str]:
        """The user's three messages."""
        return (
            f"Use your shell tool to run: echo {MARK}{self.word}",
            f"no, shorter please, {self.word}",
            f"ok thanks. what did I ask first, {self.word}?",
        )
