"""What surrounds the main part of a web page: contact details in it are read, banners about cookies are not."""

import pytest

from tests.store.ingest.test_html import lines_of

MAIN = "<main><h1>Club</h1><p>We row.</p></main>"


def below(frame):
    """The lines after the main part of a page with this around it."""
    lines = lines_of(f"<title>Club</title><body>{MAIN}{frame}")
    assert lines[:2] == ["# Club", "We row."]
    return lines[2:]


@pytest.mark.parametrize("frame", ["footer", "aside", 'div role="contentinfo"', "header"])
def test_contact_details_around_the_main_part_are_kept_below_it(frame):
    text = "<p>Copyright 2020-2025. Do not copy.</p><ul><li>Home<li>News</ul><nav><a href='tel:1'>menu</a></nav>"
    text += "<address>1 Mill Lane<br>York</address><p>Phone: <a href='tel:+441904'>01904</a>"
    assert below(f"<{frame}>{text}</{frame.split()[0]}>") == ["## Contact", "1 Mill Lane", "York", "Phone: 01904"]


@pytest.mark.parametrize(
    "hours",
    ["Mon-Fri 9:00-17:00", "Sunday: 10 am to noon", "Mo\u2013Fr 9\u201317 Uhr", "montags 9 bis 12 Uhr", "daily 8-20"],
)
def test_opening_hours_are_kept_with_their_heading(hours):
    frame = f"<footer><p>So what? 2020-2025</p><h4>Open</h4><ul><li>{hours}</ul><div><p>Tel. 01904 5567</div></footer>"
    assert below(frame) == ["## Open", hours, "## Contact", "Tel. 01904 5567"]
    table = f"<footer><h4>Open</h4><table><tr><th>Day<th>Time<tr><td>Monday<td>{hours}</table></footer>"
    assert below(table) == ["## Open", f"| Day: Monday | Time: {hours} |"]


def test_contact_details_are_not_repeated_and_forms_and_menus_have_none():
    line = "<p>Tel. 01904 5567</p>"
    assert below(f"<header>{line}</header><footer>{line}<form>{line}</form></footer><nav>{line}</nav>") == [
        "## Contact",
        "Tel. 01904 5567",
    ]


def test_the_address_of_a_link_is_text():
    page = '<a href="mailto:a%40b.org?subject=x">Write to us</a>, <a href="MAILTO:a@b.org">A@b.org</a>'
    assert lines_of(page) == ["Write to us (a@b.org), A@b.org"]
    page = '<a href="tel:+4412">call</a> or <a href="tel:+4412">012</a> or <a href="mailto:?body=x">share</a>'
    assert lines_of(page) == ["call (+4412) or 012 or share"]
    assert lines_of('<a href="http://hotel:80">Hotel</a>') == ["Hotel"]


@pytest.mark.parametrize(
    "banner", ["div id=cookie-banner", "div class='x ConsentBar'", "section aria-label='Cookie notice'", "div id=gdpr"]
)
@pytest.mark.parametrize("content", [MAIN, "<h1>Club</h1><p>We row.</p>"])
def test_banners_about_cookies_are_removed(banner, content):
    asked = f"<{banner}><h2>Privacy</h2><p>We use cookies. a@b.org</p><button>OK</button></{banner.split()[0]}>"
    for page in (asked + content, content + asked, f"{content}<footer>{asked}</footer>"):
        assert lines_of(page) == ["# Club", "We row."]


@pytest.mark.parametrize(
    "page",
    [
        "<title>Privacy policy</title><section id=cookies>Our cookies last a year.</section>",
        "<body class=has-cookie-banner><p>Our cookies last a year.</p></body>",
        "<main><div class=cookies>Our cookies last a year.</div></main>",
        "<div id=cookie-wrapper><h1>Rules</h1><p>Our cookies last a year.</p></div>",
        "<form id=consent-form>I allow Bo to row.</form>",
    ],
)
def test_text_about_cookies_or_consent_is_kept(page):
    assert any("Our cookies last a year." in line or "Bo" in line for line in lines_of(page))
