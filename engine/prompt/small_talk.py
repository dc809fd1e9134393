"""Reply to greetings, thanks and questions about the application, with questions that the documents suggest."""

import re
from collections.abc import Collection

from store.types import Finder

GERMAN = re.compile(r"\b(?:hallo|moin|guten|danke?|dank|wer|wie|was|hilfe|tsch\u00fcss|kannst)\b", re.I)
MAX_EXAMPLES = 3
TEXTS = {  # introduction, without documents, before the examples, example, example without a heading
    "en": (
        "Hello! I answer questions about your documents and quote the passage that each answer comes from.",
        "Add documents first, then ask about them.",
        "You could ask, for example:",
        "What does {document} say about {heading}?",
        "Summarize {document}.",
    ),
    "de": (
        "Hallo! Ich beantworte Fragen zu Ihren Dokumenten und zitiere die Stelle, von der jede Antwort stammt.",
        "F\u00fcgen Sie zuerst Dokumente hinzu, und fragen Sie dann danach.",
        "Sie k\u00f6nnten zum Beispiel fragen:",
        "Was steht in {document} zu {heading}?",
        "Fasse {document} zusammen.",
    ),
}


def example_questions(finder: Finder, language: str = "en", without: Collection[str] = ()) -> list[str]:
    """Return a question for each of the newest documents, at most MAX_EXAMPLES, but for those with names in `without`.

    It is about a heading of the document, or else asks for a summary.
    """
    *_, about, summarize = TEXTS[language]
    questions = []
    for document in [each for each in finder.documents() if each.name not in without][:MAX_EXAMPLES]:
        contexts = (chunk.context.split(" > ")[1:] for chunk in finder.chunks(document.id))
        heading = next((titles[-1] for titles in contexts if len(titles) > 1), None)
        template = about if heading else summarize
        questions.append(template.format(document=document.name, heading=heading))
    return questions


def reply(text: str, finder: Finder) -> str:
    """Return what to answer to `text`, in English or German."""
    language = "de" if GERMAN.search(text) else "en"
    introduction, no_documents, before, *_ = TEXTS[language]
    examples = [f"- {question}" for question in example_questions(finder, language)]
    return "\n".join([f"{introduction} {before}", *examples]) if examples else f"{introduction} {no_documents}"
