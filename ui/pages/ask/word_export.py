"""A chat as a Word document: questions as headings, answers, their numbered sources, and how each was made."""

import io

from engine.generation.quotes import format_unit
from ui.format import day
from ui.html import printable
from ui.pages.ask.chat import OTHER_ANSWERS, Chat

MAX_TITLE_CHARS = 255  # of a Word document's properties
SMALL_PT = 9.0  # of the line about the method


def chat_as_docx(chat: Chat) -> bytes:
    """Return the chat as a file in Word's format."""
    from docx import Document  # noqa: PLC0415  takes a tenth of a second, which a start can do without
    from docx.shared import Pt  # noqa: PLC0415

    document = Document()
    document.core_properties.title = _line(chat.name)[:MAX_TITLE_CHARS]
    document.core_properties.author = "KVScope"
    document.add_heading(_line(chat.name), 0)
    document.add_paragraph(f"KVScope chat, {day(chat.at)}.")
    for turn in chat.visible_turns:
        document.add_heading(_line(turn.question), 1)
        for line in printable(turn.text or turn.why_empty).splitlines():
            document.add_paragraph(line)
        if turn.alternatives:
            document.add_paragraph(OTHER_ANSWERS)
            for quote in turn.alternatives:
                document.add_paragraph(f"{_line(format_unit(quote.text))} [{quote.rank}]", "List Bullet")
        for source in turn.passages:
            page = "" if source.page is None else f", page {source.page}"
            document.add_paragraph(f"[{source.rank}] {_line(source.document)}{page}")
        metrics = document.add_paragraph().add_run(printable(turn.export_line))
        metrics.italic, metrics.font.size = True, Pt(SMALL_PT)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def _line(text: str) -> str:
    return " ".join(printable(text).split())
