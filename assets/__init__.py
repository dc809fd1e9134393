"""Files that ship with the application: trained weights, sample documents, styles and scripts of the page."""

from pathlib import Path

ASSETS = Path(__file__).parent
