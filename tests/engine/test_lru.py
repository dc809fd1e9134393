"""The LRU cache: computed once, least recently used evicted first, deletions during a computation respected."""

from engine.lru import LRUCache


def test_value_is_computed_once_and_the_least_recently_used_is_evicted():
    computed = []
    cache = LRUCache(lambda text, *args: computed.append((text, *args)) or text.upper(), maxsize=2)
    assert [cache("a", 1), cache("b"), cache("a", 1), cache("c"), cache("a"), cache("b")] == list("ABACAB")
    assert computed == [("a", 1), ("b",), ("c",), ("b",)] and len(cache.keys()) == 2


def test_sizes_of_values_count_towards_the_limit():
    cache = LRUCache(lambda text: text.upper(), maxsize=5, sizeof=len)
    assert [cache(text) for text in ("ab", "cd", "e")] == ["AB", "CD", "E"]
    cache("fgh")
    assert cache.keys() == ["e", "fgh"]
    cache.evict("fgh")
    assert cache("abcd") == "ABCD" and cache.keys() == ["e", "abcd"]
    assert cache("abcdef") == "ABCDEF" and not cache.keys()  # larger than the whole cache
    cache("abcde")
    cache.clear()
    cache("abcde")
    assert cache.keys() == ["abcde"]


def test_only_a_deleted_text_is_computed_again():
    computed = []
    cache = LRUCache(lambda text: computed.append(text), maxsize=9)
    for text in ("a", "b"):
        cache(text)
    cache.evict("a")
    cache.evict("never seen")
    for text in ("a", "b"):
        cache(text)
    assert computed == ["a", "b", "a"]
    cache.clear()
    assert not cache.keys()


def test_text_deleted_during_its_computation_is_not_cached():
    cache = LRUCache(lambda text: cache.evict(text) or text, maxsize=9)
    assert cache("a") == "a" and not cache.keys()
