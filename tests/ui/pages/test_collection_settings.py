"""A collection's settings: remembered, applied while only it is searched, and left out where they no longer fit."""

import pytest

from backend.interface.models import FidelityStatus
from engine.fidelity import FidelityCurve, FidelityPoint
from store.errors import StoreFull
from store.types import COLLECTION
from tests.support.fake_backend.backend import METHODS
from ui.components.method_options import extra_params

BOATS, BIRDS = [COLLECTION + "Boats"], [COLLECTION + "Birds"]
USUAL = ["cacheclip", 6, 20, 0, 64, True, None]
OPTIONS = {(method.name, param.name): param.default for method in METHODS for param in extra_params(method)}


class Session:
    """The inputs of one session, and what the handlers have changed."""

    def __init__(self, composer):
        self.part = composer.remembered
        self.inputs = [*self.part._settings.values(), *composer.options.components()]
        self.values = dict(zip(self.inputs, [*USUAL, *OPTIONS.values()], strict=True))
        self.before, self.note, self.scope = None, "", []

    def __getitem__(self, name):
        return self.values[self.part._settings[name]]

    def __setitem__(self, name, value):
        self.values[self.part._settings[name]] = value

    def option(self, method, name):
        return self.values[self.inputs[len(USUAL) + list(OPTIONS).index((method, name))]]

    def choose(self, scope):
        self.scope = scope
        self.take(self.part.follow(scope, self.before, *self.values.values()))

    def remember(self):
        self.take(self.part.remember(self.scope, *self.values.values()))

    def take(self, update):
        self.before = update.get(self.part._before, self.before)
        self.note = update.get(self.part._note, self.note)
        for each, change in update.items():
            if each in self.values:
                value = change.get("value", self.values[each]) if isinstance(change, dict) else change.value
                self.values[each] = value


@pytest.fixture
def session(app, backend):
    return Session(app.ask.composer)


def test_settings_apply_while_only_their_collection_is_searched(session):
    session.choose(BOATS)
    session["method"], session["recompute_percent"], session["draft"] = "cacheblend", 55, False
    session.values[session.inputs[len(USUAL) + list(OPTIONS).index(("cacheblend", "check_layer"))]] = 3
    session.remember()
    session.choose([])
    assert [session[name] for name in session.part._settings] == USUAL
    for scope in (["d" * 64], [*BOATS, *BIRDS], BIRDS):
        session.choose(scope)
        assert [session[name] for name in session.part._settings] == USUAL
    session.choose(BOATS)
    assert (session["method"], session["recompute_percent"], session["draft"]) == ("cacheblend", 55, False)
    assert session.option("cacheblend", "check_layer") == 3 and "applied" in session.note
    session.take(session.part.forget(BOATS))
    session.choose([])
    session.choose(BOATS)
    assert session["method"] == "cacheclip" and session.note == ""


def test_changes_stay_when_a_collection_without_settings_is_left(session):
    session.choose(BIRDS)
    session["recompute_percent"] = 70
    session.choose([])
    assert session["recompute_percent"] == 70


def test_a_target_chooses_the_ratio_that_the_model_of_now_needs(session, backend, monkeypatch):
    session.choose(BOATS)
    session["target"], session["recompute_percent"] = "fast", 5
    session.remember()
    session.choose([])
    session.choose(BOATS)
    assert (session["target"], session["recompute_percent"]) == (None, 5)  # this model is not calibrated
    points = tuple(FidelityPoint(ratio, kl, 0.9, 100.0, 4.0) for ratio, kl in ((0.0, 0.5), (0.1, 0.2), (0.4, 0.04)))
    status = FidelityStatus(24, 24, FidelityCurve("cacheclip", points, 400.0, 24))
    monkeypatch.setattr(backend.models, "fidelity_status", status)
    session.choose([])
    session.choose(BOATS)
    assert (session["target"], session["recompute_percent"]) == ("fast", 4)


@pytest.mark.parametrize(
    "saved",
    [
        {"method": "gone", "recompute_percent": 90, "target": "fast", "options": {"tokens": 1}},
        {"method": ["epic"], "passages": float("nan"), "temperature": True, "draft": "yes", "target": {}},
        {"recompute_percent": 1e9, "passages": "6", "max_new_tokens": None, "options": [1], "other": 1},
    ],
)
def test_a_method_that_does_not_exist_and_values_that_do_not_fit_are_left_out(session, backend, saved):
    backend.library.remembered = {"Boats": saved, "Birds": {**saved, "passages": 3}}
    session.choose(BOATS)
    assert [session[name] for name in session.part._settings] == USUAL
    session.choose(BIRDS)  # the others apply
    assert [session[name] for name in session.part._settings] == [USUAL[0], 3, *USUAL[2:]]


def test_an_option_that_a_method_does_not_accept_any_more_keeps_its_value(session, backend):
    backend.library.remembered["Boats"] = {
        "method": "cacheblend",
        "options": {"check_layer": 99, "deviation": "keys", "gone": 1},
    }
    session.choose(BOATS)
    assert session["method"] == "cacheblend" and session.option("cacheblend", "deviation") == "keys"
    assert session.option("cacheblend", "check_layer") == 1


def test_a_full_disk_is_reported(session, backend, monkeypatch):
    def full(name, values):
        raise StoreFull("The disk is full or read-only: cannot save the settings (No space left).")

    monkeypatch.setattr(backend.library, "remember_settings", full)
    session.choose(BOATS)
    session.remember()
    assert "The disk is full" in session.note and backend.library.remembered == {}
