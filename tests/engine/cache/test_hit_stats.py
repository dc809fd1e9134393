"""How questions were served: every passage's tokens are counted once, and sums never fall."""

from dataclasses import replace
from threading import Thread

from engine.cache.hit_stats import CacheStats
from engine.request import Request, Source
from tests.support.doubles import FixedLibrary, last, make_engine

ASK = Request("When does the Old Kestrel sail?", passages=3, max_new_tokens=2)


def source(found, tokens):
    return Source(1, "a.txt", "a", None, None, True, tokens, "host", 0, (), found)


def test_tokens_are_counted_by_cache_result():
    served = CacheStats()
    served.record([source("exact prefix hit", 5), source("chunk hit", 7), source("miss", 11), source("miss", 2)])
    served.record([source("none", 3)])
    one, two = served.recent()
    assert (one.number, one.exact, one.chunk, one.missed, one.full) == (1, 5, 7, 13, 0)
    assert (two.number, two.exact, two.chunk, two.missed, two.full) == (2, 0, 0, 0, 3)
    assert served.totals().hit_rate == 12 / 25  # what was not looked for is no miss


def test_the_hit_rate_of_nothing_is_none():
    served = CacheStats()
    served.record([])
    assert served.totals().questions == 1 and served.totals().hit_rate is None


def test_the_history_is_bounded_and_the_sums_are_not():
    served = CacheStats(history_len=3)
    for _ in range(10):
        served.record([source("chunk hit", 1)])
    assert [one.number for one in served.recent()] == [8, 9, 10]
    assert (served.totals().questions, served.totals().chunk) == (10, 10)


def test_no_request_is_lost_between_threads():
    served = CacheStats(history_len=1000)
    threads = [Thread(target=lambda: [served.record([source("miss", 2)]) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served.totals().missed == 800
    assert [one.number for one in served.recent()] == list(range(1, 401))


def test_an_engine_counts_what_its_answers_report():
    made, answers = make_engine(), []
    for names, method in ((("ferry", "tern"), "full"), (("ferry", "tern", "fares"), "prefix"), (("tern",), "direct")):
        made.finder = FixedLibrary(*names)
        answers.append(last(made.ask(replace(ASK, method=method))))
    for answer, service in zip(answers, made.stats.recent(), strict=True):
        for found, tokens in (
            ("exact prefix hit", service.exact),
            ("chunk hit", service.chunk),
            ("miss", service.missed),
            ("none", service.full),
        ):
            assert tokens == sum(one.tokens for one in answer.sources if one.cache_result == found)
    totals = made.stats.totals()
    assert totals.questions == 3 and min(totals.exact, totals.missed, totals.full) > 0
