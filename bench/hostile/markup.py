"""Hostile HTML, Markdown and CSV: deep nesting, huge tables, unclosed constructs, white space, wrong encodings."""

import random
from encodings.aliases import aliases

from bench.hostile.sizes import size

TEXT = "The ferry sails on Fridays."
NESTED: tuple[str, ...] = (
    "div",
    "table tr td",
    "ul li",
    "ol li",
    "b",
    "span",
    "blockquote",
    "svg",
    "a",
    "dl dd",
    "p",
    "font",
    "pre",
)
NESTED += ("table", "form", "select option", "h1", "main", "details summary", "th", "x-y", "template", "math", "head")
UNCLOSED: tuple[str, ...] = (
    "<!--",
    "<![CDATA[",
    "<!doctype html>",
    "<?",
    "<a href='",
    "</",
    "&#",
    "&",
    "<meta",
    "<meta charset=",
    "<p ",
)
UNCLOSED += ("<title>", "<script>", "<textarea>", "<plaintext>", "<b><i>", "<a b=c ", "&#x110000;", "&#0;", "&#xd800;")
UNCLOSED += ("\ue000", "<li>", "<td>", "<!ENTITY", "<br>", "<input>", "<table>")
MARKS: tuple[str, ...] = (
    "> ",
    "- ",
    "  - ",
    "[",
    "![",
    "*",
    "_",
    "`",
    "#",
    "|",
    "\\",
    "1. ",
    "<",
    "~~",
    "[](",
    "&",
    "```\n",
    "\t",
    "---\n",
)
MARKS += ("|-", "| a ", "=", "- [ ] ", "$", "\n> ", "\n# ", "\n|a|b|\n|-|-|\n", "\n- ", "\n===\n", "--- |", "<div>\n")


def html_nesting(generator: random.Random) -> tuple[str, bytes]:
    """Return elements that are nested up to 200,000 deep, half of them never closed."""
    names = generator.choice(NESTED).split()
    depth = size(generator, 10, 200_000)
    opened = "".join(f"<{name}>" for name in names) * depth
    closed = "".join(f"</{name}>" for name in reversed(names)) * depth
    return "Nested.html", f"<html>{opened}{TEXT}{closed if generator.random() < 0.5 else ''}".encode()


def html_table(generator: random.Random) -> tuple[str, bytes]:
    """Return a table with many rows or columns, in tables, whose cells span more than there is."""
    rows, columns = size(generator, 1, 3000), size(generator, 1, 100)
    spans = ("", " colspan=1000", " rowspan=1000", " colspan=999999999", " rowspan=-1", " colspan=\u0663 rowspan=0")
    cell = generator.choice(["td", "th"])
    lines = (
        "<tr>" + "".join(f"<{cell}{generator.choice(spans)}>{generator.choice(['', 'a', '1'])}" for _ in range(columns))
        for _ in range(rows)
    )
    around = size(generator, 1, 50)
    return "Table.html", ("<table><tr><td>" * around + f"<table>{''.join(lines)}</table>").encode()


def html_unclosed(generator: random.Random) -> tuple[str, bytes]:
    """Return constructs that are opened up to 200,000 times and never closed."""
    constructs = generator.sample(UNCLOSED, generator.randint(1, 3))
    return "Unclosed.html", f"<html><p>{TEXT}{''.join(constructs) * size(generator, 10, 200_000)}{TEXT}".encode()


def html_charset(generator: random.Random) -> tuple[str, bytes]:
    """Return a page that declares any of Python's encodings and is something else."""
    codec = generator.choice([*sorted(set(aliases.values())), "punycode", "idna", "unicode_escape", "undefined"])
    codec = generator.choice([codec, codec, "utf-99", "a" * 300, "hex"])
    body = generator.choice([generator.randbytes, lambda count: (TEXT + "-").encode() * (count // 28)])(
        size(generator, 10, 300_000)
    )
    return "Charset.html", f"<html><meta charset='{codec}'><p>{TEXT}".encode() + body


def markdown_nesting(generator: random.Random) -> tuple[str, bytes]:
    """Return marks of Markdown that are repeated up to 200,000 times on a line, or on lines that are nested deeper."""
    marks = "".join(generator.sample(MARKS, generator.randint(1, 2)))
    count = size(generator, 10, 200_000)
    if generator.random() < 0.3:
        return "Nested.md", "".join(f"{'  ' * level}{marks}{TEXT}\n" for level in range(min(count, 1500))).encode()
    before, after = generator.choice(["", "# ", "a|b\n", "---\n"]), generator.choice(["", "x", "\nx|y", "]" * count])
    return "Repeated.md", f"{TEXT}\n{before}{marks * count}{after}\n{TEXT}".encode()


def separated_values(generator: random.Random) -> tuple[str, bytes]:
    """Return a CSV file with a wide row, open quotation marks, huge cells or strange separators."""
    count = size(generator, 10, 1_000_000)
    start = generator.choice(["", "sep=;\n", 'sep="\n', "sep= \n", "sep=\0\n", "sep=\t\n", "a,b\n1,2\n"])
    body = generator.choice([",", '"', '",', "a", "a,b\n", '"a\n', ";\n", "\t", '""', "'", "\\", "1,\n", "a\r", " ,"])
    return "Values.csv", f"{start}{body * count}\nFerry,1\n".encode()


def whitespace(generator: random.Random) -> tuple[str, bytes]:
    """Return one line with up to 200,000 blanks or fillers inside: slow for a pattern that tries every start."""
    before = generator.choice(
        ["", "# a", "- ", "a|b\n---", "a|b\n|-", "1", "| a", "> ", "a\n--", "<p>a", "<pre>a", "$1"]
    )
    filler = generator.choice([" ", "\t", "\u3000", "#", " #", "-", "|", ".", ". ", "%", "\n ", "_", "\u2026", " \n\n"])
    after = generator.choice(["x", "|x", "x|y", "\nx", ""])
    extension = generator.choice(["md", "html", "txt", "csv"])
    body = f"{before}{filler * size(generator, 10, 200_000)}{after}\n\n{TEXT}"
    return f"Blanks.{extension}", (f"<html>{body}" if extension == "html" else body).encode()
