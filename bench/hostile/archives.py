"""Hostile Office files and EPUB books: zip bombs, false sizes, XML that is deep, expands or has extreme values."""

import io
import random
import struct
import zipfile
from collections.abc import Mapping
from encodings.aliases import aliases

from bench.hostile.sizes import size

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument"
MEBIBYTE = 2**20
MAIN = {  # of each format: its main part, the part with text, that part's start and end, and what is repeated in it
    "docx": (
        "word/document.xml",
        "word/document.xml",
        f"<w:document {W}><w:body>",
        "</w:body></w:document>",
        "<w:p><w:r><w:t>The ferry sails.</w:t></w:r></w:p>",
    ),
    "xlsx": (
        "xl/workbook.xml",
        "xl/worksheets/sheet1.xml",
        f"<worksheet {S}><sheetData>",
        "</sheetData></worksheet>",
        '<row><c t="inlineStr"><is><t>The ferry sails.</t></is></c></row>',
    ),
    "pptx": (
        "ppt/presentation.xml",
        "ppt/slides/slide1.xml",
        f"<p:sld {P} {A}><p:cSld><p:spTree><p:nvGrpSpPr/><p:grpSpPr/>",
        "</p:spTree></p:cSld></p:sld>",
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="a"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>'
        "<a:p><a:r><a:t>The ferry sails.</a:t></a:r></a:p></p:txBody></p:sp>",
    ),
    "epub": ("book.opf", "one.xhtml", "<html><body>", "</body></html>", "<p>The ferry sails.</p>"),
}
NESTED = {  # elements that may contain themselves, outermost first
    "docx": ("w:tbl w:tr w:tc", "w:sdt w:sdtContent", "w:ins", "w:p w:r", "w:txbxContent w:p", "x"),
    "xlsx": ("row c", "row c is", "x"),
    "pptx": ("p:grpSp", "p:sp p:txBody", "x"),
    "epub": ("div", "table tr td", "ul li", "x"),
}


def parts(kind: str, body: str | None = None) -> dict[str, bytes]:
    """Return the parts of a small file of a format, with this body in its part with text."""
    main, path, start, end, item = MAIN[kind]
    text = start + (item if body is None else body) + end
    if kind == "epub":
        container = f'<container><rootfiles><rootfile full-path="{main}"/></rootfiles></container>'
        package = (
            f'<package><manifest><item id="a" href="{path}"/></manifest><spine><itemref idref="a"/></spine></package>'
        )
        return _encoded({"META-INF/container.xml": container, main: package, path: text})
    types = {"docx": "wordprocessingml.document", "xlsx": "spreadsheetml.sheet", "pptx": "presentationml.presentation"}
    overrides = f'<Override PartName="/{main}" ContentType="{TYPES}.{types[kind]}.main+xml"/>'
    files = {"_rels/.rels": _relations(f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="{main}"/>')}
    folder, _, name = main.rpartition("/")
    target = path.removeprefix(f"{folder}/")
    if kind == "xlsx":
        files[main] = f'<workbook {S} {R}><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>'
        overrides += f'<Override PartName="/{path}" ContentType="{TYPES}.spreadsheetml.worksheet+xml"/>'
        files[f"{folder}/_rels/{name}.rels"] = _relations(
            f'<Relationship Id="r1" Type="{OFFICE}/worksheet" Target="{target}"/>'
        )
    elif kind == "pptx":
        files[main] = f'<p:presentation {P} {R}><p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>'
        overrides += f'<Override PartName="/{path}" ContentType="{TYPES}.presentationml.slide+xml"/>'
        files[f"{folder}/_rels/{name}.rels"] = _relations(
            f'<Relationship Id="r1" Type="{OFFICE}/slide" Target="{target}"/>'
        )
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    types_part = f'<Types xmlns="{PACKAGE}/content-types">{default}{overrides}</Types>'
    return _encoded({"[Content_Types].xml": types_part, **files, path: text})


def member_info(name: str) -> zipfile.ZipInfo:
    """Return a compressed member with a date that is always the same, so that a file follows from its generator."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def epub() -> bytes:
    """Return a small EPUB book."""
    return _zipped(parts("epub"))


def bomb(generator: random.Random) -> tuple[str, bytes]:
    """Return a file whose text, or another part, unpacks to up to 400 MB."""
    kind = generator.choice(list(MAIN))
    _, path, start, end, item = MAIN[kind]
    name = path if generator.random() < 0.5 else "word/media/a.png"
    block = (item if generator.random() < 0.5 else " ").encode() * 4096
    num_blocks = size(generator, MEBIBYTE, 400 * MEBIBYTE) // len(block) + 1
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for each, content in parts(kind).items():
            if each != name:
                archive.writestr(member_info(each), content)
        with archive.open(member_info(name), "w", force_zip64=True) as member:
            member.write(start.encode())
            for _ in range(num_blocks):
                member.write(block)
            member.write(end.encode())
    return f"Bomb.{kind}", sink.getvalue()


def false_size(generator: random.Random) -> tuple[str, bytes]:
    """Return a file whose members declare other sizes than they have, in both places of an archive."""
    kind = generator.choice(list(MAIN))
    data = bytearray(_zipped(parts(kind, MAIN[kind][4] * size(generator, 1, 100_000))))
    false = generator.choice([0, 1, 1000, 2**31 - 1, 2**32 - 1])
    for mark, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        at = data.find(mark)
        while at >= 0:
            if generator.random() < 0.7:
                struct.pack_into("<I", data, at + offset - 4 * generator.randrange(2), false)
            at = data.find(mark, at + 4)
    return f"False size.{kind}", bytes(data)


def many_members(generator: random.Random) -> tuple[str, bytes]:
    """Return a file with up to 50,000 members, or with strange names."""
    kind = generator.choice(list(MAIN))
    names = ["../../evil.xml", "/etc/evil", "C:\\evil", "word//document.xml", "a" * 60_000, "con", "\u202egnp.exe"]
    more = [f"word/{number}.xml" for number in range(size(generator, 1, 50_000))]
    extra = dict.fromkeys(names if generator.random() < 0.3 else more, b"<a/>")
    return f"Members.{kind}", _zipped({**extra, **parts(kind)})


def overlapping(generator: random.Random) -> tuple[str, bytes]:
    """Return an archive whose directory lists the same member many times, under other names."""
    kind = generator.choice(list(MAIN))
    data = _zipped(parts(kind, MAIN[kind][4] * size(generator, 1, 100_000)))
    end = data.rfind(b"PK\5\6")
    start = struct.unpack_from("<I", data, end + 16)[0]
    directory = data[start:end]
    first = directory[: 46 + sum(struct.unpack_from("<HHH", directory, 28))]
    copies = b"".join(first[:46] + b"%06d" % number + first[52:] for number in range(size(generator, 1, 50_000)))
    count = min(len(parts(kind)) + len(copies) // len(first), 2**16 - 1)
    tail = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory) + len(copies), start, 0)
    return f"Overlapping.{kind}", data[:start] + directory + copies + tail


def entities(generator: random.Random) -> tuple[str, bytes]:
    """Return a file whose text declares XML entities: some that expand without end, or some of other files."""
    kind = generator.choice(list(MAIN))
    _, path, start, end, _ = MAIN[kind]
    depth, width = generator.randint(1, 30), generator.randint(2, 50)
    laughs = [f'<!ENTITY e{each} "{f"&e{each - 1};" * width}">' for each in range(1, depth)]
    declarations = "".join(
        [generator.choice(['<!ENTITY e0 "lol">', '<!ENTITY e0 SYSTEM "file:///etc/passwd">']), *laughs]
    )
    codec = generator.choice(["utf-8", "utf-16", "utf-16-be", "utf-7", "cp037"])
    text = f'<?xml version="1.0" encoding="{codec}"?><!DOCTYPE a [{declarations}]>{start}&e{depth - 1};{end}'
    return f"Entities.{kind}", _zipped(parts(kind) | {path: text.encode(codec)})


def deep_xml(generator: random.Random) -> tuple[str, bytes]:
    """Return a file whose elements are nested up to 200,000 deep."""
    kind = generator.choice(list(MAIN))
    names = generator.choice(NESTED[kind]).split()
    depth, item = size(generator, 10, 200_000), MAIN[kind][4]
    opened = "".join(f"<{name}>" for name in names) * depth
    closed = "".join(f"</{name}>" for name in reversed(names)) * depth
    return f"Deep.{kind}", _zipped(parts(kind, opened + item + (closed if generator.random() < 0.8 else "")))


def extreme_cells(generator: random.Random) -> tuple[str, bytes]:
    """Return a workbook, or tables of Word, with extreme references, spans, numbers, dates and formats."""
    extremes = ["XFD1048576", "A1", "ZZZZZZ1", "A99999999999", "A0", "", "-1", "1e309", "nan", "9" * 400, "2958466"]
    is_valid = generator.random() < 0.5  # so that a reader gets to the end
    references = ["A1", "B7", "ZZ100", "XFD1048576"] if is_valid else extremes
    numbers = ["0", "-1", "2958466", "1e308"] if is_valid else extremes
    rows, styles, kinds = (["1", "100"], ["0", "1"], "n") if is_valid else (extremes, extremes, "snbde")
    pick = generator.choice
    count = size(generator, 1, 5_000)
    if generator.random() < 0.3:
        grid = f'<w:tcPr><w:gridSpan w:val="{pick(numbers)}"/><w:vMerge w:val="restart"/></w:tcPr><w:p/>'
        return "Cells.docx", _zipped(parts("docx", f"<w:tbl><w:tr>{f'<w:tc>{grid}</w:tc>' * count}</w:tr></w:tbl>"))
    cells = (
        f'<c r="{pick(references)}" s="{pick(styles)}" t="{pick(kinds)}"><v>{pick(numbers)}</v></c>'
        for _ in range(count)
    )
    styled = (f'<row r="{pick(rows)}"><c s="1"><v>{generator.uniform(-1e6, 1e6)}</v></c></row>' for _ in range(count))
    body = (
        "".join(f'<row r="{pick(rows)}">{cell}</row>' for cell in cells)
        if generator.random() < 0.5
        else "".join(styled)
    )
    corners = references[:1] if is_valid else extremes
    merged = "".join(
        f'<mergeCell ref="{pick(corners)}:{pick(references)}"/>' for _ in range(size(generator, 1, 100_000))
    )
    has_merges = generator.random() < 0.3
    pattern = generator.choice(["0", "#", "[", "[$", '"', "0.", "y", "_"]) * size(generator, 1, 50_000)
    stylesheet = (
        f'<styleSheet {S}><numFmts><numFmt numFmtId="170" formatCode="{pattern.replace(chr(34), "&quot;")}"/></numFmts>'
        "<fonts><font/></fonts><fills><fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="170" applyNumberFormat="1"/></cellXfs></styleSheet>'
    )
    files = parts("xlsx", body)
    if has_merges:
        sheet, end = MAIN["xlsx"][1], b"</sheetData>"
        files[sheet] = files[sheet].replace(end, end + f"<mergeCells>{merged}</mergeCells>".encode())
    override = f'<Override PartName="/xl/styles.xml" ContentType="{TYPES}.spreadsheetml.styles+xml"/></Types>'
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace(b"</Types>", override.encode())
    return "Cells.xlsx", _zipped(files | {"xl/styles.xml": stylesheet.encode()})


def wrong_xml_encoding(generator: random.Random) -> tuple[str, bytes]:
    """Return a file whose XML declares any of Python's encodings and is written in another."""
    kind = generator.choice(list(MAIN))
    files, path = parts(kind), generator.choice(MAIN[kind][:2])
    declared = f'<?xml version="1.0" encoding="{generator.choice(sorted(set(aliases.values())))}"?>'
    codec = generator.choice(["utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "cp037"])
    text = declared + files[path].decode() + generator.choice(["", "\0", "\udc80", "\uffff"])
    return f"Encoding.{kind}", _zipped(files | {path: text.encode(codec, "replace")})


def _relations(content: str) -> str:
    return f'<Relationships xmlns="{PACKAGE}/relationships">{content}</Relationships>'


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in texts.items()}


def _zipped(files: Mapping[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(member_info(name), content)
    return sink.getvalue()
