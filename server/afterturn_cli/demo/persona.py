"""A scripted user with one hidden preference, who words it differently every time and never in full."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afterturn_cli.demo.prompts import Question


@dataclass(frozen=True)
class Reply:
    """What the user sees of an answer: its text, and whether it ended by itself."""

    text: str
    finish_reason: str

    @property
    def words(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True)
class Reaction:
    """The user's next message. `hint` is the sentence in it that says what to do, None after praise."""

    text: str
    satisfied: bool
    hint: str | None


@dataclass(frozen=True)
class Persona:
    """`problem` names what is wrong with a reply to a question, None when nothing is; `complaints` holds the
    sentences for each problem, `{topic}` standing for the thing asked about."""

    name: str
    problem: Callable[[Question, Reply], str | None]
    complaints: dict[str, Sequence[str]]
    openers: Sequence[str]
    praise: Sequence[str]

    def react(self, question: Question, reply: Reply, chance: random.Random) -> Reaction:
        """The next message after a reply; the same `chance` state gives the same words."""
        problem = self.problem(question, reply)
        if problem is None:
            return Reaction(chance.choice(self.praise), satisfied=True, hint=None)
        hint = chance.choice(self.complaints[problem]).format(topic=question.topic)
        opener = chance.choice(self.openers)
        return Reaction(f"{opener} {hint}".strip(), satisfied=False, hint=hint)


def on_topic(question: Question, text: str) -> bool:
    """The reply names the thing asked about."""
    lowered = text.lower()
    return any(re.search(rf"\b{re.escape(name)}", lowered) for name in question.names)


def repeats(text: str) -> bool:
    """Some run of four words, or a whole sentence, comes twice."""
    words = re.findall(r"\w+", text.lower())
    runs = [tuple(words[start : start + 4]) for start in range(len(words) - 3)]
    sentences = [sentence.strip() for sentence in re.split(r"[.!?\n]+", text.lower()) if sentence.strip()]
    return len(set(runs)) < len(runs) or len(set(sentences)) < len(sentences)


def short_problem(question: Question, reply: Reply) -> str | None:
    """Content with 5 to 30 words that end by themselves, say nothing twice and name the thing asked about."""
    if reply.finish_reason != "stop" or reply.words > 30:
        return "long"
    if reply.words < 5:
        return "bare"
    if not on_topic(question, reply.text):
        return "astray"
    if repeats(reply.text):
        return "repeats"
    return None


def unrelated_problem(question: Question, reply: Reply) -> str | None:
    """Never content: wishes that have nothing to do with length, for the placebo arm."""
    return "wish"


SHORT = Persona(
    name="short",
    problem=short_problem,
    complaints={
        "long": (
            "Please keep it short.",
            "Just one short sentence, please.",
            "Please answer in one sentence.",
            "Please answer with a short version.",
            "One or two sentences are enough.",
            "Please be brief.",
            "Keep your answer brief and to the point.",
            "Please answer in a single sentence.",
            "Please say it in one short line.",
            "Please say it in fewer words.",
            "A single short sentence would be enough.",
            "Please get to the point in one sentence.",
            "Keep it to one sentence, please.",
            "Please make your answers much shorter.",
            "I would like a brief answer.",
            "Please stick to one short sentence.",
            "Please keep your replies brief.",
            "Just tell me the main thing in one sentence.",
            "Please give a short answer.",
            "Please sum it up in a sentence.",
            "Use only one sentence.",
            "I only need a quick one-sentence answer.",
            "Please keep it to the first sentence.",
            "Only the essentials, please, in one sentence.",
            "Please don't write more than a sentence or two.",
            "Say it in a nutshell, please.",
            "Make it short and simple, please.",
            "Please leave out the details and be brief.",
            "Please reply with one short sentence.",
            "Keep it concise, please.",
            "Please be concise: one sentence.",
            "Could you keep your answer to a sentence?",
            "I prefer short answers, please.",
            "Please keep your answers shorter.",
            "Cut it down to one sentence, please.",
            "Please shorten your answer to a sentence.",
            "Please keep it to a single line.",
            "Please keep your answers to the point and short.",
            "A quick, short reply is all I want.",
            "Please explain it in one short sentence.",
            "Next time, answer in a single short sentence.",
            "Please don't go on for so long; one sentence is fine.",
            "Short answers only, please.",
            "Please answer with no more than a sentence.",
        ),
        "bare": (
            "Please answer in a full sentence.",
            "Please answer in a complete sentence.",
            "Please answer in one whole sentence.",
            "Please reply with one proper sentence.",
            "Please answer in one sentence with all its parts.",
        ),
        "astray": (
            "Please answer my question about {topic}.",
            "Please name what I asked about in your answer.",
            "Please stay with my question and say what you are talking about.",
            "Please answer what I asked about {topic}, briefly.",
            "Please answer what I asked, briefly.",
        ),
        "repeats": (
            "Please don't repeat yourself; say it once.",
            "Please don't repeat the same words.",
            "Please answer in one sentence and don't repeat yourself.",
            "Please say it once, in one sentence.",
        ),
    },
    openers=(
        "",
        "Hmm, that's not it.",
        "I don't like that answer.",
        "That doesn't help me.",
        "I'm not happy with that answer.",
        "No, that's not good.",
        "Sorry, that didn't work for me.",
        "That was a bad answer.",
        "Not good.",
    ),
    praise=(
        "Perfect, thanks!",
        "Great, thank you!",
        "Thanks, that's exactly what I wanted.",
        "Exactly right, thanks.",
        "That's perfect.",
        "Great answer!",
        "Thank you, that was very helpful.",
        "Nice, just what I needed.",
        "Good answer, thanks.",
        "Wonderful, thank you.",
        "Yes, like that. Thanks!",
        "Excellent, thanks.",
        "That's it, thank you!",
        "Lovely, that's what I like.",
        "Brilliant, thanks a lot.",
        "Thanks, that helps a lot!",
    ),
)

UNRELATED = Persona(
    name="unrelated",
    problem=unrelated_problem,
    complaints={
        "wish": (
            "Please answer in British spelling.",
            "Please answer in metric units.",
            "Please answer in a friendly tone.",
            "Please don't write dates with the day first.",
            "Please don't write numbers as digits.",
            "Please avoid the passive voice.",
            "Please sound a little more formal.",
            "Please don't use exclamation marks.",
            "Please answer in everyday words.",
            "Please answer in the present tense.",
            "Please don't use abbreviations.",
            "Please don't give prices in dollars.",
            "Please be more polite.",
            "Please don't use the Fahrenheit scale.",
            "Please don't use foreign words.",
            "Please be more cheerful.",
        ),
    },
    openers=SHORT.openers,
    praise=SHORT.praise,
)

PERSONAS = {persona.name: persona for persona in (SHORT, UNRELATED)}
