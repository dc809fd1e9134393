"""What is remembered of texts: made once, the latest ones, and nothing of a text that was forgotten meanwhile."""

from engine.lru import LRUCache


def test_a_text_is_made_once_and_the_oldest_leaves_first():
    made = []
    recent = LRUCache(lambda text, *more: made.append((text, *more)) or text.upper(), maxsize=2)
    assert [recent("a", 1), recent("b"), recent("a", 1), recent("c"), recent("a"), recent("b")] == list("ABACAB")
    assert made == [("a", 1), ("b",), ("c",), ("b",)] and len(recent) == 2


def test_what_is_large_leaves_room_for_less():
    recent = LRUCache(lambda text: text.upper(), maxsize=5, sizeof=len)
    assert [recent(text) for text in ("ab", "cd", "e")] == ["AB", "CD", "E"] and recent.full
    recent("fgh")
    assert list(recent._held) == ["e", "fgh"] and not recent.full
    recent.forget("fgh")
    assert recent("abcd") == "ABCD" and list(recent._held) == ["e", "abcd"]
    assert recent("abcdef") == "ABCDEF" and not len(recent)  # larger than all
    recent("abcde")
    recent.clear()
    assert not recent.full


def test_what_is_forgotten_is_made_again_and_nothing_else():
    made = []
    recent = LRUCache(lambda text: made.append(text), maxsize=9)
    for text in ("a", "b"):
        recent(text)
    recent.forget("a")
    recent.forget("never seen")
    for text in ("a", "b"):
        recent(text)
    assert made == ["a", "b", "a"]
    recent.clear()
    assert len(recent) == 0


def test_a_text_that_is_forgotten_while_something_is_made_of_it_is_not_kept():
    recent = LRUCache(lambda text: recent.forget(text) or text, maxsize=9)
    assert recent("a") == "a" and len(recent) == 0
