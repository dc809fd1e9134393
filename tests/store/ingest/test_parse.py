"""Supported files are parsed to their text; others are rejected with the reason."""

import io
import random
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from pptx import Presentation

from store.errors import DocumentTooLarge, UnreadableDocument
from store.ingest import parse, read_file
from store.ingest.sniff import detect_format
from store.limits import Limits
from tests.support.files import PICTURE, docx, paragraph, pdf, table, zipped

COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
WORD = docx(paragraph("Title", "Heading1") + paragraph("Some *bold_words* here") + table("ab", "cd"))


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch):
    """Without text recognition: blank pages of damaged files would be read for seconds each. See test_ocr.py."""
    monkeypatch.setattr("store.ingest.ocr.available", lambda: False)


def test_pdf_text_is_read_with_the_page_of_every_word():
    parsed = parse(pdf("alpha one", "", "gamma\nthree"), "a.pdf")
    assert len(parsed.page_starts) == 3
    assert [parsed.page_of(parsed.text.index(word)) for word in ("alpha", "one", "gamma", "three")] == [
        1,
        1,
        3,
        3,
    ]
    assert parsed.page_of(0) == 1


def test_pages_without_text_give_a_warning():
    assert "1 of 2 pages" in parse(pdf("alpha", ""), "a.pdf").warning
    assert not parse(pdf("alpha"), "a.pdf").warning


def test_a_damaged_page_of_a_pdf_costs_that_page_alone():
    whole = pdf("alpha", "beta", "gamma")
    parsed = parse(whole.replace(b"7 0 R 9 0 R]", b"3 0 R 9 0 R]"), "a.pdf")  # points to something that is no page
    assert "alpha" in parsed.text and "gamma" in parsed.text and parsed.page_of(parsed.text.index("gamma")) == 3
    assert parsed.warning == "1 of 3 pages is damaged and could not be read."


def test_word_broken_at_a_line_end_of_a_pdf_is_joined():
    assert "recomputation" in parse(pdf("the recom-\nputation of keys"), "a.pdf").text


def test_an_encrypted_pdf_is_rejected_with_the_reason():
    with pytest.raises(UnreadableDocument, match=r"a\.pdf is encrypted"):
        parse(pdf("secret", encrypt=True), "a.pdf")


@pytest.mark.parametrize(("has_ocr", "reason"), [(False, "requirements-ocr.txt"), (True, "no text was recognized")])
def test_a_pdf_without_text_is_rejected_with_the_reason(monkeypatch, has_ocr, reason):
    monkeypatch.setattr("store.ingest.ocr.available", lambda: has_ocr)
    monkeypatch.setattr("store.ingest.ocr.recognize_pdf_pages", lambda data, indices: ([] for _ in indices))
    with pytest.raises(UnreadableDocument, match=reason):
        parse(pdf("", ""), "a.pdf")


def test_word_file_keeps_headings_and_tables_and_stars():
    text = parse(WORD, "a.docx").text
    assert text.startswith("# Title\n")
    assert "Some *bold_words* here" in text
    assert "| a: b |\n| c: d |" in text


def test_archive_that_unpacks_to_too_much_is_rejected(monkeypatch):
    monkeypatch.setattr("store.ingest.archive.MAX_UNPACKED_BYTES", 900_000)
    bomb = docx(paragraph("x"), extra={"word/media/a.bin": bytes(10**6)})
    assert len(bomb) < 10_000
    with pytest.raises(DocumentTooLarge, match="unpacks to 1 MiB"):
        parse(bomb, "a.docx")


def test_an_archive_packed_suspiciously_tight_is_rejected(monkeypatch):
    monkeypatch.setattr("store.ingest.archive.MIN_RATIO_BYTES", 900_000)
    with pytest.raises(DocumentTooLarge, match=r"unpacks to .* times its size"):
        parse(docx(paragraph("x"), extra={"word/media/a.bin": bytes(10**6)}), "a.docx")


def test_word_file_cannot_declare_entities():
    evil = docx(paragraph("&e;"), prolog='<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]>')
    with pytest.raises(UnreadableDocument, match="declares XML entities"):
        parse(evil, "a.docx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_word_file_cannot_declare_them_in_any_encoding_or_part(encoding):
    evil = '<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><d>&e;</d>'.encode(encoding)
    for part in ("word/document.xml", "word/document.bin", "word/media/image1.svg"):
        with pytest.raises(UnreadableDocument, match="declares XML entities"):
            parse(docx(paragraph("x"), extra={part: evil}), "a.docx")


def test_html_gives_the_visible_text():
    page = (
        "<html><head><title>T</title><style>no</style></head><body><h2>Head</h2><script>no()</script>"
        "<noscript>no</noscript><template>no</template><!-- no --><p>a_b * <a href='no'>link</a> <img alt='no'></p>"
        "<table><tr><td>x</td><td>y</td></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    assert parse(page.encode(), "a.html").text == "# T\n\n## Head\n\na_b * link\n\n| x: 1 | y: 2 |"


def test_items_of_a_long_list_are_numbered_without_counting_those_before_each():
    items = "".join(f"<li>item<ol start=3><li>inner<li></ol>{number}</li>\n" for number in range(1500))
    read = parse(f"<html><ol>{items}</ol>".encode(), "a.html").text
    assert re.findall(r"^(\d+)\. item", read, re.M) == [str(number) for number in range(1, 1501)]
    assert read.count("3. inner") == 1500


def test_html_with_an_open_head_keeps_its_body():
    assert parse(b"<!doctype html><head><title>t</title><body><p>words", "a.html").text == "# t\n\nwords"


@pytest.mark.parametrize("depth", [10, 300, 3000])
def test_html_of_any_depth_is_read(depth):
    assert parse(b"<div>" * depth + b"deep" + b"</div>" * depth, "a.html").text == "deep"


def test_html_is_read_in_the_encoding_that_it_declares():
    page = "<html><meta charset='windows-1251'><p>Привет".encode("cp1251")
    assert parse(page, "a.html").text == "Привет"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_western_text_is_read_in_every_common_encoding(encoding):
    text = "Über naïve café prices of 20 € and more"
    assert parse(text.encode(encoding), "a.txt").text == text


def test_one_truncated_character_does_not_prevent_utf8():
    assert parse("汉字测试。".encode() * 20 + b"\xe6", "a.txt").text == "汉字测试。" * 20 + "\ufffd"


def test_line_ends_become_one_and_control_characters_go():
    assert parse(b"a\r\nb\rc\x0cd\te\x1b[0m" + b"x" * 2000, "a.txt").text.startswith("a\nb\nc\nd\te[0mx")


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"\xef\xbb\xbf", "\u3000\u2003".encode(), b"<html></html>"])
def test_empty_files_are_rejected(content):
    with pytest.raises(UnreadableDocument, match=r"a\.html"):
        parse(content, "a.html")


@pytest.mark.parametrize(
    "content, kind",
    [
        (PICTURE, "picture"),
        (b"\xff\xd8\xff\xe0" + bytes(99), "picture"),
        (b"RIFF1234WAVE" + bytes(99), "sound"),
        (zipped({"a.txt": "x"}), "ZIP archive"),
        (zipped({"xl/workbook.xml": "x"}), "damaged Excel"),
        (zipped({"ppt/presentation.xml": "x"}), "damaged PowerPoint"),
        (zipped({"META-INF/container.xml": "x"}), "damaged EPUB"),
        (zipped({"content.xml": "x"}), "OpenDocument"),
        (COMPOUND + bytes(99), "old or password-protected"),
        (COMPOUND + "EncryptedPackage".encode("utf-16-le"), "password-protected; remove"),
        (COMPOUND + "Workbook".encode("utf-16-le"), "an old Excel file; save it as .xlsx"),
        (b"PK\x03\x04torn", "damaged Office"),
        (b"%PDF-1.4 torn", "damaged PDF"),
        (random.Random(0).randbytes(5000), "binary"),
        (b"text\0with NUL", "binary"),
    ],
)
@pytest.mark.parametrize("name", ["a.pdf", "a.txt", "a.docx", "a.html"])
def test_unsupported_formats_are_rejected_by_name_whatever_the_extension(content, kind, name):
    with pytest.raises(UnreadableDocument, match=kind):
        parse(content, name)


@pytest.mark.parametrize("name", ["a.pdf", "a.txt", "a.docx", "a.html", "a"])
def test_supported_kinds_are_read_whatever_the_extension(name):
    assert parse(pdf("alpha"), name).text == "alpha"
    assert parse(WORD, name).text.startswith("# Title")
    assert parse(b"<!DOCTYPE html><p>alpha</p>", name).text == "alpha"
    assert parse(b"plain alpha\nbeta", name).text == "plain alpha\nbeta"


def test_too_much_is_rejected_with_both_numbers_the_setting_and_the_remedy(tmp_path):
    limits = Limits(max_file_mib=1, max_pages=2, max_characters=10)
    (tmp_path / "a.txt").write_bytes(b"x" * 2**21)
    with pytest.raises(DocumentTooLarge, match=r"is 2\.0 MiB.* 1 MiB \(--max-file-mib\).*Split"):
        read_file(tmp_path / "a.txt", "a.txt", limits)
    assert read_file(tmp_path / "a.txt", "a.txt", Limits(max_file_mib=2)) == b"x" * 2**21
    with pytest.raises(DocumentTooLarge, match=r"a\.txt is 1\.1 MiB, and the limit is 1 MiB"):
        limits.check_file(2**20 + 1, "a.txt")
    for content in (b"x" * 11, pdf("alpha beta gamma"), b"<html>" + b" " * 11, docx(paragraph("x" * 11))):
        with pytest.raises(DocumentTooLarge, match=r"10 characters.*\(--max-characters\).*Split"):
            parse(content, "a.txt", limits)
    assert parse(pdf("a", "b"), "a.pdf", limits).text == "a b"
    with pytest.raises(DocumentTooLarge, match=r"3 pages.* 2 \(--max-pages\).*Split"):
        parse(pdf("a", "b", "c"), "a.pdf", limits)


def workbook():
    file = io.BytesIO()
    book = Workbook()
    book.active.append(["Item", "Price", 3])
    book.save(file)
    return file.getvalue()


def deck():
    file = io.BytesIO()
    presentation = Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[0]).shapes.title.text = "alpha"
    presentation.save(file)
    return file.getvalue()


@given(st.binary(max_size=300), st.sampled_from(["a.pdf", "a.docx", "a.html", "a.md", "a.csv"]))
def test_any_bytes_are_read_or_rejected(content, name):
    try:
        text = parse(content, name).text
    except UnreadableDocument:
        return
    assert text.strip()
    assert not set(text) & {chr(code) for code in (*range(9), *range(11, 32), 127, 0xFEFF)}


@pytest.mark.parametrize("whole", [WORD, pdf("alpha", "beta"), workbook(), deck()], ids=["docx", "pdf", "xlsx", "pptx"])
def test_damaged_files_are_read_or_rejected(whole):
    chance = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        length = chance.choice([len(damaged), chance.randrange(len(damaged))])
        with suppress(UnreadableDocument, DocumentTooLarge):
            parse(bytes(damaged[:length]), "a.bin")


@pytest.mark.parametrize("body", ["<w:tbl><w:tr/></w:tbl>", "<w:p><w:r><w:drawing/></w:r></w:p>x", "<w:tc/>", "<oops"])
def test_odd_word_files_are_read_or_rejected(body):
    try:
        assert "kept" in parse(docx(paragraph("kept") + body), "a.docx").text
    except UnreadableDocument as error:
        assert "damaged" in str(error)


def test_many_comments_before_a_text_are_parsed_fast():
    comments = "<!-- licence -->\n" * 100  # a backtracking pattern would take exponential time
    assert parse(f"{comments}# Title\n\ntext".encode(), "a.md").text.endswith("text")
    assert detect_format(f"{comments}<!doctype html><p>text".encode(), "a") == "html"


def test_unterminated_tags_are_text_and_parsed_in_linear_time():
    text = parse(
        ("<p>Where <b>a</b> is:</p> if a <b and c <d then e; " + "if a <b and c <d then e; " * 4000).encode(), "a.html"
    ).text
    assert text.startswith("Where **a** is:") and text.endswith("if a <b and c <d then e;")  # hours, tag by tag


WRAPPED = (
    "We have booked the hall for the summer party on the 19th, and please\n"
    "no bouncy castle this time, after what happened to Pete at the last\n"
    "one. Who brings salad?"
)


def test_wrapped_lines_of_text_are_joined_also_in_quotes_of_an_email():
    joined = WRAPPED.replace("\n", " ")
    assert parse(WRAPPED.encode(), "a.txt").text == joined
    quoted = "I do.\n\n" + "\n".join(f"> {line}" for line in WRAPPED.split("\n"))
    assert parse(quoted.encode(), "a.txt").text == f"I do.\n\n{joined}"


@pytest.mark.parametrize(
    "text",
    [
        "the sea\nis blue\nand deep",
        "2025-01-01 12:00:00 INFO the ferry has left the harbour\n2025-01-01 12:30:00 INFO the ferry has arrived there",
        "Bring these to the party, all of them, as agreed last week:\n- a salad for four people, and plates\n- a drink",
        "> 5 years: 10 %",
    ],
)
def test_other_lines_of_text_stay_lines(text):
    assert parse(text.encode(), "a.txt").text == text
