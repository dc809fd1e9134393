"""The catalogue of translations: complete for the reviewed texts, with the same placeholders in every language.

assets/scripts/translate.js looks texts up as `is_translated` does: by a key with {} for each number, or for each number
with its unit, by sentences, or by a key with {*} for a name.
"""

import re

import pytest

from assets import read_translations
from tests.ui.test_texts import TEXTS

NUMBER = re.compile(r"\d[\d.,]*\d|\d")
QUANTITY = re.compile(r"<?(?:\d[\d.,]*\d|\d)(?: (?:ms|s|%|B|[KMG]iB)(?:/s)?(?!\w))?")
PLACEHOLDER = re.compile(r"\{[\d*]*\}")
LANGUAGES = {"de", "zh"}
CATALOGUE = read_translations()
PATTERNS = [".+".join(map(re.escape, PLACEHOLDER.split(key))) for key in CATALOGUE if "{*}" in key]
ARE_DATA = {  # names, numbers, addresses, commands, and the questions, answers and passages of the samples
    *("KVScope", "Abc", "Apache-2.0", "PyTorch", "English", "Deutsch", "\u4e2d\u6587"),
    *("cacheclip", "pgdsf", "cpu", "auto", "off", "bf16", "fp32", "1st", "2nd", "3rd"),
    *("SmolLM2-135M-Instruct", "SmolLM2-360M-Instruct", "SmolLM2-1.7B-Instruct", "Qwen3-0.6B", "Qwen3-1.7B"),
    *("Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "all-MiniLM-L6-v2", "55 minutes [1]", "one?"),
    "How long does the crossing on the North Route take?",
    "What is the maintenance code of the boat on the Bay Route?",
    "Answer the question from the passages. Be short and exact: one or two sentences.",
    "th the company in September",
    ". The average employee was ill for",
    "6.4 days, which is less than in 2023.",
    "Harbour Line spent 38,500 pounds on training",
    "in 2024. Five deckhands passed the examination for mate,",
    "and two young people from Port Ellery",
    "began a three-year apprenticeship in the workshop. All new employees completed the two-day safety course before "
    "their first sailing.",
    "## 7. Safety and incidents",
}
SAME_IN_GERMAN = {
    *("Name", "Name \u2191", "Name \u2193", "System", "Passage", "Passage {}", "passage {}", "Reranker", "Download"),
    *("Budget", "Cache", "Chats", "Export", "Prefill", "TTFT", "Word", "prefill {}", "Ideal", "{} download"),
    *("CacheClip", "CacheClip v{}", "CacheBlend", "ProphetKV", "InfoFlow KV", "QCFuse", "EPIC", "APE"),
}


def is_translated(text):
    text = " ".join(text.split())
    if any(kind.sub("{}", text) in CATALOGUE for kind in (NUMBER, QUANTITY)):
        return True
    sentences = re.split(r"(?<=[.!?]) ", text)
    if len(sentences) > 1 and all(map(is_translated, sentences)):
        return True
    return any(re.fullmatch(pattern, text) for pattern in PATTERNS)


def is_interface(text):
    return text not in ARE_DATA and not re.match(r"hf download |\d+th$", text) and re.search(r"[A-Za-z]{2}", text)


def test_every_text_of_the_page_is_translated():
    texts = filter(is_interface, TEXTS.read_text(encoding="utf-8").splitlines())
    assert [text for text in texts if not is_translated(text)] == []


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_translations_have_the_placeholders_of_their_keys(language):
    wrong = []
    for key, translations in CATALOGUE.items():
        translation = translations[language]
        ordered = PLACEHOLDER.findall(key)
        used = PLACEHOLDER.findall(translation)
        numbered = sorted(f"{{{number}}}" for number in range(1, len(ordered) + 1))
        if used != ordered and sorted(used) != numbered:
            wrong.append((key, translation))
        if "  " in translation or not translation.strip():
            wrong.append((key, translation))
    assert wrong == []


def test_every_entry_has_both_languages_and_another_text():
    assert [key for key, translations in CATALOGUE.items() if translations.keys() != LANGUAGES] == []
    assert {key for key, translations in CATALOGUE.items() if translations["de"] == key} <= SAME_IN_GERMAN
    names = {key for key, translations in CATALOGUE.items() if translations["zh"] == key}
    assert names <= SAME_IN_GERMAN
    assert list(CATALOGUE) == sorted(CATALOGUE) and len(CATALOGUE) > 1000
