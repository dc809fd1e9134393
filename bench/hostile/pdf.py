"""Hostile PDF files: bombs, deep objects, page trees without end, huge pages, content that never stops."""

import random
import zlib
from collections.abc import Sequence

from bench.hostile.sizes import size

FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
TEXT = "BT /F2 12 Tf 72 720 Td (The ferry sails on Fridays.) Tj ET"
BOX = "[0 0 612 792]"
NUMBERS = (
    "1e38",
    "-1e38",
    "0",
    "-1",
    "99999999999999999999",
    "1e-38",
    "32767",
    "14400",
    "1000000",
    "nan",
    "0.0001",
    "612",
)


def pdf_nesting(generator: random.Random) -> tuple[str, bytes]:
    """Return arrays, dictionaries, graphics states or marked content that is nested up to 200,000 deep."""
    start, end = generator.choice(
        [
            ("[", "]"),
            ("<<", ">>"),
            ("<< /A ", ">>"),
            ("q ", "Q "),
            ("/A BMC ", "EMC "),
            ("BT ", "ET "),
            ("(", ")"),
            ("{", "}"),
        ]
    )
    depth = size(generator, 10, 200_000)
    nested = start * depth + (end * depth if generator.random() < 0.5 else "")
    if generator.random() < 0.5:
        return "Nested.pdf", _document([nested + TEXT])
    return "Nested.pdf", _document(
        [TEXT], page_extra=f"/{generator.choice(['Annots', 'A', 'Group', 'Rotate'])} {nested}"
    )


def pdf_pages(generator: random.Random) -> tuple[str, bytes]:
    """Return pages with giant, tiny, negative or missing boxes, some without text, so that they are recognized."""
    boxes = [generator.choice(NUMBERS) for _ in range(4)]
    box = generator.choice([f"[{' '.join(boxes)}]", f"[0 0 {boxes[0]} {boxes[1]}]", "[]", "null", "[0 0 612]"])
    extra = generator.choice(["", f"/UserUnit {boxes[2]}", f"/Rotate {boxes[3]}", f"/CropBox [{' '.join(boxes)}]"])
    content = generator.choice([*[TEXT] * 8, "0 0 612 792 re f", ""])
    return "Pages.pdf", _document([content] * generator.randint(1, 3), box=box, page_extra=extra)


def pdf_bomb(generator: random.Random) -> tuple[str, bytes]:
    """Return a page whose content unpacks to up to 200 MB, through up to three filters."""
    block = generator.choice([b" ", b"q ", b"0 0 m ", TEXT.encode() + b"\n"]) * 4096
    packer = zlib.compressobj(1)
    count = size(generator, 2**16, 200 * 2**20) // len(block)
    content = b"".join(
        [packer.compress(TEXT.encode() + b"\n"), *(packer.compress(block) for _ in range(count)), packer.flush()]
    )
    num_filters = generator.randint(1, 3)
    for _ in range(num_filters - 1):
        content = zlib.compress(content, 1)
    filters = f"/Filter [{'/FlateDecode ' * num_filters}]"
    return "Bomb.pdf", _document([content], stream_extra=filters)


def pdf_content(generator: random.Random) -> tuple[str, bytes]:
    """Return a page with up to 30,000 lines, boxes or texts at random or extreme places."""

    def number() -> str:
        return generator.choice(NUMBERS) if generator.random() < 0.02 else f"{generator.uniform(0, 800):.1f}"

    kinds = {
        "rules": lambda: f"{number()} {number()} m {number()} {number()} l S",
        "grid": lambda: f"0 {(y := number())} m 612 {y} l S {(x := number())} 0 m {x} 792 l S",
        "boxes": lambda: f"{number()} {number()} {number()} {number()} re S",
        "texts": lambda: f"BT /F1 {number()} Tf 1 0 0 1 {number()} {number()} Tm (Tern {number()}) Tj ET",
        "turned": lambda: f"BT /F1 9 Tf 0 1 -1 0 {number()} {number()} Tm (Tern) Tj ET",
        "stacked": lambda: "BT /F1 12 Tf 72 720 Td (Tern) Tj ET",
    }
    chosen = generator.sample(list(kinds), generator.randint(1, 2))
    lines = [kinds[generator.choice(chosen)]() for _ in range(size(generator, 10, 30_000))]
    return "Content.pdf", _document(["\n".join([TEXT, *lines])])


def pdf_glyphs(generator: random.Random) -> tuple[str, bytes]:
    """Return a text of up to a million characters, through a map that turns each into many, or with strange fonts."""
    count = size(generator, 10, 1_000_000)
    target = generator.choice(["0041", "D800", "FFFE", "0000", "00410042" * 200, "", "E000"])
    cmap = f"1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <00> <FF> <{target}> endbfrange"
    font = f"<< /Type /Font /Subtype /{generator.choice(['Type1', 'TrueType', 'Type3', 'Type0'])} /ToUnicode 5 0 R >>"
    text = generator.choice(["a", "\\\n", "\\377", "-", " ", "a ", "1."]) * count
    strings = f"({text}) Tj" if generator.random() < 0.5 else f"[{'(ab) -9999 ' * (count // 10)}] TJ"
    content = f"BT /F1 {generator.choice([*NUMBERS, '12', '12', '12'])} Tf 72 720 Td {strings} ET {TEXT}"
    return "Glyphs.pdf", _document([content], font=font, objects=[_stream(cmap.encode())])


def pdf_references(generator: random.Random) -> tuple[str, bytes]:
    """Return forms that draw themselves or each other, or a file whose objects refer to themselves."""
    num_forms, fan = generator.randint(1, 30), generator.choice([1, 1, 1, 1, 1, 2, 4])
    forms = []
    for index in range(num_forms):
        following = 5 + (index + 1) % num_forms if generator.random() < 0.8 else 5 + index
        resources = (
            f"/Subtype /Form /BBox {BOX} /Resources << /XObject << /X {following} 0 R >> /Font << /F2 3 0 R >> >>"
        )
        forms.append(_stream(("/X Do " * fan + TEXT).encode(), f"/Type /XObject {resources}"))
    extra = generator.choice(["", "/Parent 5 0 R", "/Contents 6 0 R", "/Length 2 0 R", "/Resources 4 0 R"])
    return "References.pdf", _document(
        ["/X Do " + TEXT], objects=forms, resources="/XObject << /X 5 0 R >>", page_extra=extra
    )


def page_tree(generator: random.Random) -> tuple[str, bytes]:
    """Return a page tree that is up to 5,000 deep, contains itself, or counts more pages than there are."""
    depth = size(generator, 1, 5_000)
    count = generator.choice([1, -1, 0, 2**31 - 1, 100_000, 10**12])
    nodes = [f"<< /Type /Pages /Count {count} /Kids [{5 + index} 0 R] >>" for index in range(1, depth)]
    last = generator.choice([f"4 0 R {BOX}", "5 0 R", "2 0 R", "999999 0 R", "4 0 R " * 1000])
    nodes.append(f"<< /Type /Pages /Count {count} /Kids [{last}] >>")
    number = 5 + len(nodes)
    resources = f"/Contents {number} 0 R /Resources << /Font << /F2 3 0 R >> >>"
    objects: list[str | bytes] = [
        f"<< /Type /Page /Parent 2 0 R /MediaBox {BOX} {resources} >>",
        *nodes,
        _stream(TEXT.encode()),
    ]
    return "Tree.pdf", _written(["<< /Type /Catalog /Pages 2 0 R >>", nodes[0], FONT, *objects])


def many_pages(generator: random.Random) -> tuple[str, bytes]:
    """Return up to 3,000 pages with the same content."""
    count = size(generator, 10, 3_000)
    pages = [
        f"<< /Type /Page /Parent 2 0 R /MediaBox {BOX} /Contents 4 0 R /Resources << /Font << /F2 3 0 R >> >> >>"
    ] * count
    kids = " ".join(f"{number} 0 R" for number in range(5, 5 + count))
    root = f"<< /Type /Pages /Count {count} /Kids [{kids}] >>"
    return "Many.pdf", _written(["<< /Type /Catalog /Pages 2 0 R >>", root, FONT, _stream(TEXT.encode()), *pages])


def _document(
    contents: Sequence[str | bytes],
    box: str = BOX,
    page_extra: str = "",
    stream_extra: str = "",
    font: str = FONT,
    resources: str = "",
    objects: Sequence[str | bytes] = (),
) -> bytes:
    """Return a PDF with a page for each content; `objects` get the numbers from 5."""
    pages: list[str | bytes] = []
    first = 5 + len(objects)
    for index, content in enumerate(contents):
        data = content if isinstance(content, bytes) else content.encode("latin-1", "replace")
        pages += [
            _stream(data, stream_extra),
            f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Contents {first + 2 * index} 0 R {page_extra} "
            f"/Resources << /Font << /F1 3 0 R /F2 {FONT} >> {resources} >> >>",
        ]
    kids = " ".join(f"{first + 2 * index + 1} 0 R" for index in range(len(contents)))
    root = f"<< /Type /Pages /Count {len(contents)} /Kids [{kids}] >>"
    return _written(["<< /Type /Catalog /Pages 2 0 R >>", root, font, "null", *objects, *pages])


def _stream(content: bytes, extra: str = "") -> bytes:
    return f"<< /Length {len(content)} {extra} >>\nstream\n".encode() + content + b"\nendstream"


def _written(bodies: Sequence[str | bytes]) -> bytes:
    """Return a file with these objects, numbered from 1."""
    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + (body if isinstance(body, bytes) else body.encode()) + b"\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}".encode()
    return bytes(out) + f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF".encode()
