"""Files that ship with the application: trained weights, sample documents, styles, scripts and texts of the page."""

import json
from pathlib import Path

ASSETS = Path(__file__).parent


def read_translations() -> dict[str, dict[str, str]]:
    """Return the translations of the page's texts: for each English one those by language, 'de' and 'zh'."""
    translations: dict[str, dict[str, str]] = json.loads((ASSETS / "translations.json").read_text(encoding="utf-8"))
    return translations


def page_script() -> str:
    """Return the scripts of the page as one, which the page contains and its Content-Security-Policy allows."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / "scripts").glob("*.js")))
