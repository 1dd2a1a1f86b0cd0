"""The words of the page that are no everyday words, explained."""

from __future__ import annotations

from ce_engine.apps.present.language import ENGLISH, Say


GLOSSARY = {
    "turn": ("turn", "A model call, with its retries. Several may belong to one question, where tools are used."),
    "lane": ("lane", "One line of conversation in the session, as one agent on one branch sees it. Each lane has a cut of its own; the main line is the one without an agent's or branch's name."),
    "layer": ("layer", "What an input is made of: the system message, tools' schemas, rules, settings, what was retrieved, and the conversation itself (immediate)."),
    "budget": ("budget", "The tokens that an input may have: the whole window, without what is kept for the reply."),
    "cut": ("the cut", "What stands before it is left out. It moves where there is no room any more, and goes deep, so that it can stay for some turns and a provider can cache what follows."),
    "cached": ("begins like the call before", "The tokens at the beginning that are the same as in the lane's call before: where they are enough for it, a provider may have them in its cache, and ask less for them."),
    "without": ("without us", "What the same call would have been, had the app's own list gone out."),
    "brought_in": ("brought in", "Earlier messages and documents that a question needs, put in beside the app's own messages."),
    "quoted": ("quoted", "Its text, or its best sentences, stands among the records that were brought in, and not as a message of its own."),
    "found": ("found for the call", "A retrieval gave it for the call. Whether the app put it into its own system message cannot be seen: those are never stored."),
    "evidence": ("evidence", "What answers rest on: tools' results, retrieved documents and earlier answers, each stored once with where it is from."),
    "group": ("message or tool call", "What goes or stays as one, and counts as one: a tool call with all its results; any other message alone."),
    "extended": ("extended", "The app's own message, with what was brought in for it before or behind it."),
    "goes_back": ("goes back", "Something that was said earlier is nearer to the question than the talk right before it. Then what it needs may have all the room that is free."),
    "score": ("score", "How near a piece is to the question: rare words that both have count most; then who said it, when, and what stands next to it."),
}  # fmt: skip
"""By name: the word, and what it means."""


def term_words(name: str, say: Say = ENGLISH) -> str:
    """A word of the glossary."""
    return say(GLOSSARY[name][0])


def meaning_words(name: str, say: Say = ENGLISH) -> str:
    """What a word of the glossary means."""
    return say(GLOSSARY[name][1])
