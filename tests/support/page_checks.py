"""What can be read and reached on a page, in figures."""

import re

from axe_playwright_python.sync_playwright import Axe


def serious(page):
    """Return what axe-core finds serious or critical, with where."""
    found = Axe().run(page).response["violations"]
    return [
        (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"]][:4])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def in_both_themes(page):
    """Yield as the page follows the system from light to dark, each time once no colour is on its way any more."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "dark => document.body.classList.contains('dark') === dark"
            " && !document.getAnimations().some(each => each instanceof CSSTransition)",
            arg=scheme == "dark",
        )
        yield scheme


def too_wide(page, parts, width=390):
    """Return what reaches beyond a narrow window: `parts` is a CSS selector."""
    over = f"e => e.getBoundingClientRect().right > {width + 1}"
    found = page.evaluate(
        f"parts => [...document.querySelectorAll(parts)].filter({over}).map(e => e.outerHTML.slice(0, 160))", parts
    )
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [*found, *([f"the page is {wide} wide"] if wide > width else [])]


def contrast(page, selector):
    """WCAG contrast of an element's text against the nearest opaque background behind it."""
    colours = page.evaluate(
        """selector => {
            let element = document.querySelector(selector), ink = getComputedStyle(element).color, paper;
            for (; element; element = element.parentElement) {
                paper = getComputedStyle(element).backgroundColor;
                if (!/, 0\\)|transparent/.test(paper)) break;
            }
            return [ink, paper];
        }""",
        selector,
    )
    lights = sorted((luminance([int(n) for n in re.findall(r"\d+", colour)[:3]]) for colour in colours), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def luminance(rgb):
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
