"""Reply to greetings, thanks and questions about the application, with questions that the documents suggest."""

import re

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


def reply(text: str, finder: Finder) -> str:
    """Return what to answer to `text`, in English or German."""
    introduction, no_documents, before, about, summarize = TEXTS["de" if GERMAN.search(text) else "en"]
    examples = []
    for document in finder.documents()[:MAX_EXAMPLES]:
        contexts = (chunk.context.split(" > ")[1:] for chunk in finder.chunks(document.id))
        heading = next((titles[-1] for titles in contexts if len(titles) > 1), None)
        template = about if heading else summarize
        examples.append(f"- {template.format(document=document.name, heading=heading)}")
    return f"{introduction} {no_documents}" if not examples else "\n".join([f"{introduction} {before}", *examples])
