"""Secrets and personal data taken out of requests and replies before they are linked and stored.

Only what is recorded is changed: the engine and the client get what was said.
"""

from dataclasses import replace

import anyio.to_thread

from afterturn_core.masking import mask_json
from afterturn_core.settings import Settings

from .conversation import Conversation
from .linking import read_history
from .recording import Answered, Asked, Original


async def as_stored(settings: Settings, conversation: Conversation) -> Conversation:
    """The conversation as it will be stored, which is what linking looks for."""
    if not settings.masks("storage"):
        return conversation
    return await anyio.to_thread.run_sync(_masked, conversation)


async def as_recorded(settings: Settings, asked: Asked, answered: Answered) -> tuple[Asked, Answered]:
    """The exchange as it may be stored. Where anything was found, in the request or in a reply, `masked` is
    set, and neither ids nor log-probabilities are kept: they say the same as the text."""
    if not settings.masks("storage"):
        return asked, answered
    return await anyio.to_thread.run_sync(_exchange, asked, answered)


def _masked(conversation: Conversation) -> Conversation:
    original = conversation.original
    (messages, tools, sampling, items, fields), kinds = mask_json(
        [
            conversation.messages,
            conversation.tools,
            conversation.sampling,
            original and original.items,
            original and original.fields,
        ]
    )
    if not kinds:
        return conversation
    return replace(
        conversation,
        messages=messages,
        tools=tools,
        sampling=sampling,
        original=original and Original(items, fields),
        masked=True,
    )


def _exchange(asked: Asked, answered: Answered) -> tuple[Asked, Answered]:
    # Prompts beside a request's first are put together after it was admitted.
    messages, found = mask_json(asked.messages)
    if found:
        asked = replace(asked, messages=messages, history=read_history(messages), masked=True)
    choices = []
    for choice in answered.choices:
        message, found = mask_json(choice.message)
        if found:
            choice, asked = replace(choice, message=message), replace(asked, masked=True)
        choices.append(choice)
    return asked, replace(answered, choices=tuple(choices))
