"""Reply to greetings, thanks and questions about the application, with questions that the documents suggest."""

import re

from store.types import Finder

GERMAN = re.compile(r"\b(?:hallo|moin|guten|danke?|dank|wer|wie|was|hilfe|tsch\u00fcss|kannst)\b", re.I)
MAX_EXAMPLES = 3
TEXTS = {  # introduction, without documents, before the examples, example
    "en": (
        "Hello! I answer questions about your documents and quote the passage that each answer comes from.",
        "Add documents first, then ask about them.",
        "You could ask, for example:",
        "Summarize {document}.",
    ),
    "de": (
        "Hallo! Ich beantworte Fragen zu Ihren Dokumenten und zitiere die Stelle, von der jede Antwort stammt.",
        "F\u00fcgen Sie zuerst Dokumente hinzu, und fragen Sie dann danach.",
        "Sie k\u00f6nnten zum Beispiel fragen:",
        "Fasse {document} zusammen.",
    ),
}


def reply(text: str, finder: Finder) -> str:
    """Return what to answer to `text`, in English or German."""
    introduction, no_documents, before, summarize = TEXTS["de" if GERMAN.search(text) else "en"]
    examples = [f"- {summarize.format(document=each.name)}" for each in finder.documents()[:MAX_EXAMPLES]]
    return "\n".join([f"{introduction} {before}", *examples]) if examples else f"{introduction} {no_documents}"
