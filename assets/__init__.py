"""Files that ship with the application: trained weights, sample documents, styles and scripts of the page."""

from pathlib import Path

ASSETS = Path(__file__).parent


def page_script() -> str:
    """Return the scripts of the page as one, which the page contains and its Content-Security-Policy allows."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / "scripts").glob("*.js")))
