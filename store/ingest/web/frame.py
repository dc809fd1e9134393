"""What surrounds the main part of a web page: menus, banners and footers are removed, contact details in them kept."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag

MAIN = {"main", "article"}  # elements, and roles of others
AROUND = {"header", "footer", "aside", "banner", "contentinfo", "complementary"}  # the main part; may name the owner
FRAME = AROUND | {"dialog", "form"}
CONTROLS = {"nav", "button", "navigation", "search"}
CONTACT_BLOCKS = ["address", "table", "dl"]  # are kept or removed as a whole
BLOCKS = ["p", "div", "li", "section", *CONTACT_BLOCKS]
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
MAX_CONTACT_CHARS = 500
MAX_CONTACTS = 50
CONTACT_LINK = re.compile(r"^\s*(tel|mailto):([^?]*)", re.I)
CONTACT = re.compile(r"\w@\w|\b(?:tel|tele?phone|phone|call|fax|telefon|mobil)\b\D{0,20}\d[\d ()/-]{4}", re.I)
WEEKDAY = re.compile(
    r"\b(?:(?i:mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?(?:day)?s?|[Dd]aily|[Tt]\u00e4glich|[Mm]ittwochs?)\b"
    r"|\b(?i:mon|diens|donners|frei|sams|sonn)tags?\b"
    r"|\b(?:Mo|Di|Mi|Do|Fr|Sa|So)\b(?=\.? ?(?:[\u2013,:+&-]|bis|und|\d))"
)
TIME = re.compile(r"\d[:.]\d\d\b|\d ?(?:am|pm|a\.m|p\.m|Uhr|h)\b|(?<!\d)\d\d? ?[\u2013-] ?\d\d?(?!\d)", re.I)
CONSENT = re.compile(r"cookie|consent|gdpr", re.I)  # in an attribute of a banner
CONSENT_TEXT = re.compile(r"cookie|gdpr|dsgvo|privacy|track|personal data|datenschutz", re.I)


def remove_frame(soup: BeautifulSoup) -> None:
    """Remove banners that ask for consent, and what surrounds the main part of a page if that is marked.

    Menus and buttons are removed in the main part, too. Contact details and opening hours around it go below it.
    """
    tags = soup.find_all(True)
    mains = [tag for tag in tags if _is_one_of(tag, MAIN)]
    inside = set(map(id, mains))  # the main parts and all in them
    for tag in tags:
        if id(tag.parent) in inside:
            inside.add(id(tag))
    around = _ids_around(mains)
    banners = {} if _is_about_consent(soup) else _consent_banners(soup, tags, inside)
    removed = set(banners)  # with what is in them
    outermost = list(banners.values())  # `Tag.decomposed` would search all that is in a tag
    contacts: list[tuple[Tag | None, Tag]] = []
    for tag in tags:
        is_control = _is_one_of(tag, CONTROLS) and not tag.has_attr("aria-expanded")  # such a button is a heading
        is_frame = _is_one_of(tag, FRAME) and id(tag) not in inside
        if id(tag.parent) in removed:
            removed.add(id(tag))
        elif mains and id(tag) not in around and (is_control or is_frame or tag.get("aria-hidden") == "true"):
            removed.add(id(tag))
            if id(tag) not in banners:
                outermost.append(tag)
                if is_frame and _is_one_of(tag, AROUND):
                    contacts += islice(_contacts(tag, banners), MAX_CONTACTS - len(contacts))
    _move_below(contacts, soup)
    for tag in outermost:
        tag.decompose()


def write_addresses(soup: BeautifulSoup) -> None:
    """Write the e-mail address or phone number that a link leads to behind its text, if that does not say it."""
    for link in soup.find_all("a", href=CONTACT_LINK):
        match = CONTACT_LINK.match(str(link["href"]))
        address, text = unquote(match[2]).strip() if match else "", link.get_text()
        is_said = address.lower() in text.lower() or (match and match[1].lower() == "tel" and re.search(r"\d", text))
        if address and not is_said:
            link.append(f" ({address})" if text.strip() else address)


def _is_one_of(tag: Tag, kinds: set[str]) -> bool:
    return tag.name in kinds or tag.get("role") in kinds


def _ids_around(tags: list[Tag]) -> set[int]:
    """Return the ids of all elements that contain one of these."""
    around: set[int] = set()
    for tag in tags:
        for parent in tag.parents:
            if id(parent) in around:
                break
            around.add(id(parent))
    return around


def _is_about_consent(soup: BeautifulSoup) -> bool:
    """Return whether a page is about cookies or privacy, or about biscuits."""
    titles = [tag.get_text() for tag in (soup.title, soup.h1) if tag]
    return any(CONSENT.search(title) or CONSENT_TEXT.search(title) for title in titles)


def _consent_banners(soup: BeautifulSoup, tags: list[Tag], inside: set[int]) -> dict[int, Tag]:
    """Return the banners that ask for consent to cookies, by id: so named, and neither in nor around the main part."""
    excluded = inside | _ids_around([tag for tag in tags if tag.name == "h1" or _is_one_of(tag, MAIN)])
    banners: dict[int, Tag] = {}
    seen: set[int] = set()
    for tag in tags:
        if id(tag.parent) in seen:
            seen.add(id(tag))
        elif id(tag) not in excluded and tag.name not in ("html", "head", "body", *HEADINGS) and _is_named_so(tag):
            seen.add(id(tag))
            if CONSENT_TEXT.search(tag.get_text(" ")):
                banners[id(tag)] = tag
    return banners


def _is_named_so(tag: Tag) -> bool:
    values = [tag.get(name) or "" for name in ("id", "class", "role", "aria-label")]
    return any(CONSENT.search(value if isinstance(value, str) else " ".join(value)) for value in values)


def _contacts(frame: Tag, banners: dict[int, Tag]) -> Iterator[tuple[Tag | None, Tag]]:
    """Yield the blocks of a frame with contact details or opening hours, each with the heading above it."""
    done: set[int] = set()
    for tag in (frame, *frame.find_all(True)):
        is_left = _is_one_of(tag, CONTROLS | {"dialog", "form"}) or id(tag) in banners
        is_block = tag is frame or tag.name in BLOCKS
        if id(tag.parent) in done or is_left:
            done.add(id(tag))
        elif is_block and (tag.name in CONTACT_BLOCKS or not tag.find(BLOCKS)):
            done.add(id(tag))
            if _is_contact(tag):
                below = tag.parent if tag.name == "li" and tag.parent else tag
                yield (below.find_previous_sibling(HEADINGS) if tag is not frame else None), tag


def _is_contact(tag: Tag) -> bool:
    text = _text_of(tag)
    has_contact = tag.name == "address" or tag.find("a", href=CONTACT_LINK) is not None or CONTACT.search(text)
    return 0 < len(text) <= MAX_CONTACT_CHARS and bool(has_contact or (WEEKDAY.search(text) and TIME.search(text)))


def _text_of(tag: Tag | None) -> str:
    return " ".join(tag.get_text(" ").split()) if tag else ""


def _move_below(contacts: Iterable[tuple[Tag | None, Tag]], soup: BeautifulSoup) -> None:
    """Append blocks to a page, each once, in sections with their headings."""
    sections: defaultdict[str, dict[str, Tag]] = defaultdict(dict)  # by title; blocks by text
    for heading, tag in contacts:
        sections[_text_of(heading) or "Contact"].setdefault(_text_of(tag), tag)
    page = soup.body or soup
    for title, blocks in sections.items():
        page.append(soup.new_tag("h2", string=title))
        for tag in blocks.values():
            part = tag.extract()
            part.name = part.name if part.name in ("table", "dl") else "div"
            part.attrs.pop("role", None)
            page.append(part)
