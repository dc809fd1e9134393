"""Test files, built from the formats' definitions without the libraries that read them."""

import io
import zipfile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
CONTENT_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)
PACKAGE = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{RELATIONS}" Target="word/document.xml"/></Relationships>'
)
HEADING = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
STYLES = f"<w:styles {W}>{HEADING}</w:styles>"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def pdf(*pages, encrypt=False):
    """Return a PDF with these texts on its pages; an empty text makes a page without a text layer.

    `encrypt` declares an unknown password: the check value is noise, so the empty password fails.
    """
    return drawn_pdf(
        *(
            f"BT /F1 12 Tf 14 TL 72 720 Td {' '.join(f'({line}) Tj T*' for line in text.split(chr(10)) if line)} ET"
            for text in pages
        ),
        encrypt=encrypt,
    )


def drawn_pdf(*contents, encrypt=False, rotate=0, field=""):
    """Return a PDF of pages with these content streams; /F1 is Helvetica, /F2 its bold.

    `field` is the content stream of a form field, at (200, 720) on each page.
    """
    fonts = [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
        for name in ("Helvetica", "Helvetica-Bold")
    ]
    bodies = ["<< /Type /Catalog /Pages 2 0 R >>", None, fonts[0]]
    kids, annotations = [], ""
    if field:
        bodies.append(
            "<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Length {len(field)} >>\nstream\n{field}\nendstream"
        )
        appearance = f"/F 4 /AP << /N {len(bodies)} 0 R >>"
        annotations = f"/Annots [<< /Subtype /Widget /FT /Tx /T (name) /Rect [200 720 400 740] {appearance} >>]"
    for content in contents:
        bodies.append(f"<< /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream")
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(bodies)} 0 R /Rotate {rotate} "
            f"{annotations} /Resources << /Font << /F1 3 0 R /F2 {fonts[1]} >> >> >>"
        )
        kids.append(f"{len(bodies)} 0 R")
    bodies[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    trailer = f"/Size {len(bodies) + 1} /Root 1 0 R"
    if encrypt:
        noise = "5a" * 32
        trailer += f" /Encrypt << /Filter /Standard /V 1 /R 2 /O <{noise}> /U <{noise}> /P -4 >> /ID [<01> <01>]"
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    table = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
    return out + f"{table}trailer\n<< {trailer} >>\nstartxref\n{len(out)}\n%%EOF".encode()


def docx(body, prolog="", extra=None):
    """Return a Word file with this XML body; `extra` maps names of more parts to their bytes."""
    parts = {
        "[Content_Types].xml": CONTENT_TYPES,
        "_rels/.rels": PACKAGE,
        "word/document.xml": f'<?xml version="1.0"?>{prolog}<w:document {W}><w:body>{body}</w:body></w:document>',
        "word/styles.xml": STYLES,
        **(extra or {}),
    }
    return zipped(parts)


def paragraph(text, style=""):
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table(*rows):
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def zipped(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()
