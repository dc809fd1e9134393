"""Accessibility and layout checks of a page: axe-core, WCAG contrast, horizontal overflow."""

import re

from axe_playwright_python.sync_playwright import Axe


def serious(page, rules=()):
    """Return the serious and critical violations that axe-core finds, with the elements; `rules`: only of these."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    violations = Axe().run(page, options=options).response["violations"]
    return [
        (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"]][:4])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]


def in_both_themes(page):
    """Yield 'light' and 'dark', each after the page has switched and its colour transitions have ended."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "dark => document.body.classList.contains('dark') === dark"
            " && !document.getAnimations().some(each => each instanceof CSSTransition)",
            arg=scheme == "dark",
        )
        yield scheme


def too_wide(page, parts, width=390):
    """Return the elements matching the CSS selector `parts` that extend beyond a narrow window."""
    overflows = f"e => e.getBoundingClientRect().right > {width + 1}"
    elements = page.evaluate(
        f"parts => [...document.querySelectorAll(parts)].filter({overflows}).map(e => e.outerHTML.slice(0, 160))", parts
    )
    page_width = page.evaluate("document.documentElement.scrollWidth")
    return [*elements, *([f"the page is {page_width} px wide"] if page_width > width else [])]


def contrast(page, selector):
    """Return the WCAG contrast of an element's text against the nearest opaque background."""
    colours = page.evaluate(
        """selector => {
            let element = document.querySelector(selector), text = getComputedStyle(element).color, background;
            for (; element; element = element.parentElement) {
                background = getComputedStyle(element).backgroundColor;
                if (!/, 0\\)|transparent/.test(background)) break;
            }
            return [text, background];
        }""",
        selector,
    )
    luminances = sorted(
        (luminance([int(n) for n in re.findall(r"\d+", colour)[:3]]) for colour in colours), reverse=True
    )
    return (luminances[0] + 0.05) / (luminances[1] + 0.05)


def luminance(rgb):
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
