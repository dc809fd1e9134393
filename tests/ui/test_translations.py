"""The catalogue of translations: complete for the reviewed texts, with the same placeholders in every language.

assets/scripts/translate.js looks texts up as `is_translated` does: by a key with {} for each number, or for each number
with its unit, by sentences, or by a key with {*} for a name.
"""

import ast
import re
from pathlib import Path

import pytest

from assets import read_translations
from store.ingest import language, sniff
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

ROOT = Path(__file__).parents[2]
WRITERS = {"disk_full_as_store_full", "_writing", "_transaction"}  # their argument ends "cannot ..."


def constant(node):
    """Return the string that an expression writes, with x for each value in it; None for another expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(constant(part) or "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def nodes(kind):
    for package in ("store", "engine", "backend", "server", "ui"):
        for path in (ROOT / package).rglob("*.py"):
            yield from (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, kind))


def is_translated(text):
    text = " ".join(text.split())
    if any(kind.sub("{}", text) in CATALOGUE for kind in (NUMBER, QUANTITY)):
        return True
    sentences = re.split(r"(?<=[.!?]) ", text)
    if len(sentences) > 1 and all(map(is_translated, sentences)):
        return True
    return any(re.fullmatch(pattern, text) for pattern in PATTERNS)


def is_interface(text):
    is_quantity = QUANTITY.fullmatch(" ".join(text.split()))
    is_data = is_quantity or text in ARE_DATA or re.match(r"hf download |\d+th$", text)
    return not is_data and re.search(r"[A-Za-z]{2}", text)


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


def test_every_hint_of_an_error_is_translated():
    assignments = [line for error in nodes(ast.ClassDef) for line in error.body if isinstance(line, ast.Assign)]
    hints = {constant(line.value) for line in assignments if ast.unparse(line.targets[0]) == "hint"} - {""}
    assert len(hints) > 20
    assert [hint for hint in hints if not is_translated(hint)] == []


def test_the_title_of_each_axis_is_translated():
    named = [(word.arg, constant(word.value)) for call in nodes(ast.Call) for word in call.keywords]
    titles = {text for name, text in named if name == "title_text" and text}
    assert len(titles) > 5
    assert [title for title in titles if not is_translated(title)] == []


def test_what_a_full_disk_prevents_is_translated():
    calls = [call for call in nodes(ast.Call) if ast.unparse(call.func).rpartition(".")[2] in WRITERS]
    actions = {constant(call.args[0]) for call in calls} - {None}
    assert len(actions) > 10
    keys = {f"The disk is full or read-only: cannot {re.sub(' x$', ' {*}', action)} ({{*}})." for action in actions}
    assert sorted(keys - CATALOGUE.keys()) == []


def test_each_type_of_file_that_is_refused_is_translated():
    kinds = [*sniff.UNSUPPORTED.values(), *sniff.UNSUPPORTED_ARCHIVES.values(), *sniff.COMPOUND_STREAMS.values()]
    assert [kind for kind in kinds if f"{{*}} is {kind}." not in CATALOGUE] == []


def test_each_language_of_a_warning_is_translated():
    names = {*language.LANGUAGES, *language.SCRIPTS.values()} - {language.ENGLISH}
    assert [name for name in names if f"{name} text: search works best in English." not in CATALOGUE] == []
    assert {*names, language.ENGLISH} <= CATALOGUE.keys()  # in the Library page's filter
