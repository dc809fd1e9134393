"""The login page, its sessions, and attacks on it, without a server."""

import pytest
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from server import auth
from server.access import Credentials
from server.auth import ALL_FAILURES, FAILURES, IDLE_S, MAX_AGE_S, AuthGuard, Sessions
from server.limits import MAX_CLIENTS, RateLimit
from tests.server.conftest import KEYS, PASSWORD, QUICK

HASH = QUICK.hash(PASSWORD)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def visit(clock):
    """Return a function that opens a browser at an address; all of them use one server."""
    guard = Middleware(AuthGuard, credentials=Credentials(HASH, KEYS), clock=clock)
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("in"))], middleware=[guard])
    app.middleware_stack = app.build_middleware_stack()
    return lambda address="203.0.113.1": TestClient(app, client=(address, 1), follow_redirects=False)


def log_in(browser, password=PASSWORD, **fields):
    return browser.post("/login", data={"password": password, **fields})


def test_the_page_needs_no_script_and_nothing_else_from_a_server(visit):
    page = visit().get("/login")
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store"
    assert "<script" not in page.text and "src=" not in page.text and "://" not in page.text
    assert "color-scheme: light dark" in page.text and 'action="/login"' in page.text


@pytest.mark.parametrize(
    ("accepted", "language", "button"),
    [
        ("de-DE,de;q=0.9,en;q=0.8", "de", "Anmelden"),
        ("fr, en;q=0.5, zh-Hans-CN;q=0.7", "zh", "\u767b\u5f55"),
        ("en-GB,en;q=0.9,de;q=0.8", "en", "Log in"),
        ("zh;q=0, *", "en", "Log in"),
        ("', <script>; de;q=x" + ",de-" * 5000, "en", "Log in"),
    ],
)
def test_the_page_and_its_messages_are_in_the_browsers_language(visit, accepted, language, button):
    browser = visit()
    browser.headers["Accept-Language"] = accepted
    page = browser.get("/login").text
    assert f'<html lang="{language}">' in page and f"<button>{button}</button>" in page
    wrong = {
        "de": "Das Passwort ist falsch.",
        "zh": "\u5bc6\u7801\u9519\u8bef\u3002",
        "en": "The password is wrong.",
    }
    assert f'<p role="alert">{wrong[language]}</p>' in log_in(browser, "wrong").text
    texts = [log_in(browser, "wrong").text for _ in range(FAILURES)]
    if language == "de":
        assert "Zu viele falsche Passw\u00f6rter. Bitte in " in texts[-1]


def test_a_password_or_a_key_opens_a_session(visit):
    for secret in (PASSWORD, KEYS[1]):
        browser = visit()
        assert browser.get("/").status_code == 401
        assert log_in(browser, secret).headers["Location"] == "/"
        assert browser.get("/").text == "in"


@pytest.mark.parametrize(
    "secret",
    ["wrong", PASSWORD + " ", PASSWORD.upper(), "", "x" * 3000, pytest.param(HASH, id="hash"), "kvscope_session"],
)
def test_a_wrong_password_opens_none(visit, secret):
    browser = visit()
    refused = log_in(browser, secret)
    assert refused.status_code == (401 if secret else 400) and "Set-Cookie" not in refused.headers
    assert 'role="alert"' in refused.text and browser.get("/").status_code == 401


def test_a_session_ends_when_it_was_not_used_for_hours_and_after_a_week(visit, clock):
    browser = visit()
    log_in(browser)
    clock.now += IDLE_S - 1
    assert browser.get("/").text == "in"
    clock.now += IDLE_S
    assert browser.get("/").status_code == 401
    clock.now = 0
    log_in(browser)
    while clock.now < MAX_AGE_S - 1:
        clock.now = min(clock.now + IDLE_S / 2, MAX_AGE_S - 1)
        assert browser.get("/").text == "in"
    clock.now += 1
    assert browser.get("/").status_code == 401


def test_another_login_replaces_the_token_and_logout_ends_it(visit):
    browser, thief = visit(), visit()
    tokens = []
    for _ in range(2):
        log_in(browser)
        tokens.append(browser.cookies["kvscope_session"])
    assert tokens[0] != tokens[1] and len(tokens[1]) >= 43  # 256 bits in base64
    assert browser.post("/logout").status_code == 303
    for token in tokens:
        assert thief.get("/", headers={"Cookie": f"kvscope_session={token}"}).status_code == 401


def test_the_number_of_sessions_is_limited_and_the_least_used_ends(monkeypatch, clock):
    monkeypatch.setattr(auth, "MAX_SESSIONS", 3)
    sessions = Sessions(clock)
    tokens = [sessions.start() for _ in range(3)]
    assert sessions.find(tokens[0])
    sessions.start()
    assert [bool(sessions.find(token)) for token in tokens] == [True, False, True]


def test_an_address_may_try_some_wrong_passwords_per_minute(visit, clock):
    browser, colleague = visit(), visit("203.0.113.2")
    assert [log_in(browser, "wrong").status_code for _ in range(FAILURES + 1)] == [401] * FAILURES + [429]
    refused = log_in(browser)
    assert refused.status_code == 429 and int(refused.headers["Retry-After"]) == 60 / FAILURES
    assert log_in(colleague).status_code == 303
    clock.now += 60 / FAILURES
    assert [log_in(browser).status_code for _ in range(9)] == [303] * 9  # right ones are not counted


def test_all_addresses_together_may_try_some_wrong_passwords_per_minute(visit, clock):
    statuses = [log_in(visit(f"198.51.100.{i}"), "wrong").status_code for i in range(ALL_FAILURES + 1)]
    assert statuses == [401] * ALL_FAILURES + [429]
    logged_in = visit("203.0.113.9")
    assert log_in(logged_in).status_code == 429
    clock.now += 60 / ALL_FAILURES
    assert log_in(logged_in).status_code == 303


def test_addresses_of_one_ipv6_network_are_one_client(visit):
    statuses = [log_in(visit(f"2001:db8::{i}"), "wrong").status_code for i in range(FAILURES + 1)]
    assert statuses[-1] == 429 and log_in(visit("2001:db8:0:1::1")).status_code == 303
    statuses = [log_in(visit(f"::ffff:203.0.113.{i}"), "wrong").status_code for i in range(FAILURES + 1)]
    assert statuses == [401] * (FAILURES + 1)


@pytest.mark.parametrize(
    "body, status",
    [
        (b"password=" + b"x" * 5000, 413),
        (b"&" * 5000, 413),
        (b"&".join(b"a%d=1" % i for i in range(99)), 400),
        (b"password=%ff%fe", 400),
        (b"password=\xff", 400),
        (b'{"password": "correct horse"}', 400),
        (b"password[]=correct+horse", 400),
        (b"", 400),
        (b"password=%00%0d%0aSet-Cookie:+x=1", 401),
    ],
)
def test_a_hostile_form_is_refused(visit, body, status):
    refused = visit().post("/login", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert refused.status_code == status and "Set-Cookie" not in refused.headers


def test_a_body_of_unknown_size_is_not_read_to_its_end(visit):
    parts = []
    endless = (parts.append(1) or b"x" * 1024 for _ in range(10_000))
    assert visit().post("/login", content=endless).status_code == 413


@pytest.mark.parametrize("where", ["//evil.example", "https://evil.example", "/\\evil.example", "\r\nX: 1"])
def test_a_login_leads_to_the_page_whatever_a_link_says(visit, where):
    browser = visit()
    assert browser.post("/login", params={"next": where}, data={"password": "no", "next": where}).status_code == 401
    answer = browser.post("/login", params={"next": where}, data={"password": PASSWORD, "next": where})
    assert answer.headers["Location"] == "/" and "X" not in answer.headers


def test_hostile_headers_are_no_session(visit):
    for headers in (
        {"Cookie": "kvscope_session=" + "x" * 60_000},
        {"Cookie": "; ".join(f"kvscope_session={i}" for i in range(2000))},
        {"Cookie": b"kvscope_session=\xff\xfe\x00"},
        {"Cookie": 'kvscope_session="'},
        {"Authorization": b"Bearer \xff"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer " + "k" * 60_000},
        {"Authorization": f"Basic {KEYS[0]}"},
        {"Authorization": KEYS[0]},
    ):
        assert visit().get("/", headers=headers).status_code == 401, headers
    for scheme in ("Bearer", "bearer", "BEARER "):
        assert visit().get("/", headers={"Authorization": f"{scheme} {KEYS[0]}"}).status_code == 200


def test_a_websocket_is_refused(visit):
    with pytest.raises(WebSocketDisconnect) as refused, visit().websocket_connect("/queue"):
        pass
    assert refused.value.code == 1008


def test_without_a_password_only_a_key_is_accepted():
    credentials = Credentials("", KEYS)
    assert credentials.accepts(KEYS[0]) and not credentials.accepts("") and not credentials.accepts("k" * 15)
    assert not Credentials(HASH, []).has_key("") and Credentials(HASH, []).accepts(PASSWORD)
    assert not Credentials("$argon2id$broken", []).accepts(PASSWORD)
    assert Credentials(PasswordHasher(1, 8, 1).hash("pässwörd"), []).accepts("pässwörd")


def test_a_rate_returns_continuously_and_remembers_a_limited_number_of_clients(clock):
    rate = RateLimit(10, 60, clock)
    assert [rate.take("a") for _ in range(11)] == [0] * 10 + [6]
    assert rate.take("b", 11) > 0 and rate.take("b", 10) == 0
    clock.now += 6
    assert (rate.take("a"), rate.take("a")) == (0, 6)
    rate.take("a", -99)
    assert [rate.take("a") for _ in range(11)] == [0] * 10 + [6]
    for i in range(MAX_CLIENTS - 1):
        rate.take(str(i))
    assert rate.take("a") > 0 and rate.take("b") == 0  # b was not seen for the longest time
