"""Hit statistics: each passage's tokens are counted once, and sums never decrease."""

from dataclasses import replace
from threading import Thread

from engine.cache.hit_stats import HISTORY_LEN, CacheStats
from engine.request import Request, Source
from tests.support.doubles import FixedFinder, last, make_engine

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=2)


def source(cache_result, tokens):
    return Source(1, "a.txt", "a", None, None, True, tokens, "host", 0, (), cache_result)


def test_tokens_are_counted_by_cache_result():
    stats = CacheStats()
    stats.record([source("exact prefix hit", 5), source("chunk hit", 7), source("miss", 11), source("miss", 2)])
    stats.record([source("none", 3)])
    one, two = stats.recent()
    assert (one.number, one.exact, one.chunk, one.missed, one.full) == (1, 5, 7, 13, 0)
    assert (two.number, two.exact, two.chunk, two.missed, two.full) == (2, 0, 0, 0, 3)
    assert stats.totals().hit_rate == 12 / 25  # tokens that were not looked up are no misses


def test_the_hit_rate_of_nothing_is_none():
    stats = CacheStats()
    stats.record([])
    assert stats.totals().number == 1 and stats.totals().hit_rate is None


def test_the_history_is_bounded_and_the_sums_are_not():
    stats = CacheStats()
    for _ in range(HISTORY_LEN + 7):
        stats.record([source("chunk hit", 1)])
    assert [one.number for one in stats.recent()] == list(range(8, HISTORY_LEN + 8))
    assert (stats.totals().number, stats.totals().chunk) == (HISTORY_LEN + 7, HISTORY_LEN + 7)


def test_no_request_is_lost_between_threads():
    stats = CacheStats()
    threads = [Thread(target=lambda: [stats.record([source("miss", 2)]) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stats.totals().missed == 800
    assert [one.number for one in stats.recent()] == list(range(1, 401))


def test_an_engine_counts_what_its_answers_report():
    engine, answers = make_engine(), []
    for names, method in ((("ferry", "tern"), "full"), (("ferry", "tern", "fares"), "prefix"), (("tern",), "direct")):
        engine.finder = FixedFinder(*names)
        answers.append(last(engine.ask(replace(ASK, method=method))))
    for answer, query in zip(answers, engine.stats.recent(), strict=True):
        for cache_result, tokens in (
            ("exact prefix hit", query.exact),
            ("chunk hit", query.chunk),
            ("miss", query.missed),
            ("none", query.full),
        ):
            assert tokens == sum(s.tokens for s in answer.sources if s.cache_result == cache_result)
    totals = engine.stats.totals()
    assert totals.number == 3 and min(totals.exact, totals.missed, totals.full) > 0
