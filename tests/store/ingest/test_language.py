"""A text in a language the search model hardly knows gets a warning, stored with the document."""

import pytest

from store.ingest.language import language_of, language_warning
from tests.store.document_library.test_library import BIRDS, add
from tests.support.files import pdf

RUSSIAN = (
    "\u0426\u0430\u043f\u043b\u044f \u0441\u0442\u043e\u0438\u0442 \u0432 \u043a\u0430\u043c\u044b\u0448\u0430\u0445. "
)
CHINESE = "\u82cd\u9e6d\u7ad9\u5728\u82a6\u82c7\u4e2d\u7b49\u5f85\u3002"
JAPANESE = "\u9dfa\u306f\u846d\u306e\u4e2d\u3067\u5f85\u3063\u3066\u3044\u307e\u3059\u3002"


@pytest.mark.parametrize("text, script", [(RUSSIAN, "Cyrillic"), (CHINESE, "Chinese"), (JAPANESE, "Japanese")])
def test_the_warning_names_another_script(text, script):
    assert language_warning(text * 20).startswith(f"{script} text: search works best in English.")
    assert language_warning(text * 20_000).startswith(f"{script} text:")


PROSE = {
    "German": (
        "Die F\u00e4hre legt um acht Uhr ab und kommt mit der Flut auf die Insel. Wer das Auto mitnehmen "
        "will, muss es am Tag vorher anmelden, denn auf dem Deck ist nicht f\u00fcr alle Platz."
    ),
    "French": (
        "Le bateau part du port \u00e0 huit heures et il est sur l'\u00eele avec la mar\u00e9e. Pour les "
        "voitures, il faut une place que l'on demande au bureau, et les enfants ne paient pas."
    ),
    "Spanish": (
        "El barco sale del puerto a las ocho y llega a la isla con la marea. Para llevar un coche se "
        "necesita una plaza que se pide en la oficina, y los ni\u00f1os no pagan por el viaje."
    ),
    "Italian": (
        "Il traghetto parte dal porto alle otto e arriva con la marea sull'isola. Per le auto si deve "
        "chiedere un posto che non sempre si trova, e i bambini sono a bordo con uno sconto della "
        "met\u00e0."
    ),
    "Portuguese": (
        "O barco sai do porto \u00e0s oito e chega com a mar\u00e9 na ilha. Para levar um carro \u00e9 "
        "preciso uma reserva que se faz na v\u00e9spera, e as crian\u00e7as n\u00e3o pagam mais do que a "
        "metade da passagem."
    ),
    "Dutch": (
        "De boot vaart om acht uur uit en is met het tij op het eiland. Wie een auto wil meenemen moet "
        "dat een dag van tevoren zeggen, want er is niet voor iedereen plaats op het dek."
    ),
    "Polish": (
        "Prom wyp\u0142ywa z portu o \u00f3smej i jest na wyspie przed przyp\u0142ywem. Kto chce "
        "zabra\u0107 auto, musi to zrobi\u0107 dzie\u0144 wcze\u015bniej, bo na pok\u0142adzie nie ma "
        "miejsca dla wszystkich i to si\u0119 nie zmieni."
    ),
    "Swedish": (
        "F\u00e4rjan g\u00e5r fr\u00e5n hamnen klockan \u00e5tta och \u00e4r p\u00e5 \u00f6n med "
        "tidvattnet. Den som har en bil m\u00e5ste s\u00e4ga det dagen innan, f\u00f6r det finns inte "
        "plats till alla och det \u00e4r som det \u00e4r."
    ),
}


@pytest.mark.parametrize("language", PROSE)
def test_the_warning_names_a_language_in_latin_script(language):
    assert language_warning(PROSE[language]).startswith(f"{language} text: search works best in English.")
    assert language_warning(PROSE[language] * 500).startswith(f"{language} text:")


@pytest.mark.parametrize("language", PROSE)
def test_a_quotation_in_an_english_text_gives_no_warning(language):
    assert language_warning(f"{BIRDS * 4} They said: {PROSE[language]}") == ""


def test_lists_of_names_and_code_give_no_warning():
    assert (
        language_warning("Los Angeles, El Paso, La Jolla, Santa Cruz, San Jos\u00e9, Las Vegas, Reno, Fresno. " * 9)
        == ""
    )
    assert language_warning("for i in range(10): total += prices[i] * counts[i]; print(total, end=' ')\n" * 9) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234 5678 " * 50,
        BIRDS,
        "\u00c0 bient\u00f4t, \u0141\u00f3d\u017a. " * 20,
        f"{BIRDS} The Russian for it: {RUSSIAN}",
        RUSSIAN[:20],
    ],
)
def test_latin_names_numbers_and_quotations_give_no_warning(text):
    assert language_warning(text) == ""


def test_the_language_is_english_only_where_its_function_words_are():
    english = (
        "This is the story of a man who waits for the boat that comes in the evening, and it is not on the island. "
    )
    assert language_of(english * 2) == "English"
    for unclear in ("1234 5678 " * 50, "Table of the port, in metres", "Reno, Fresno. " * 30):
        assert language_of(unclear) == ""
    assert language_of(PROSE["German"]) == "German" and language_of(RUSSIAN * 20) == "Cyrillic"


def test_the_samples_of_a_long_text_reach_its_end():
    assert language_warning(BIRDS * 200 + RUSSIAN * 8000)


def test_warnings_are_stored_with_the_document(open_library, file_of):
    library = open_library()
    steps = add(library, file_of(RUSSIAN * 20, "a.txt"))
    assert "Cyrillic" in steps[0].warning and steps[-1].warning == steps[0].warning == steps[-1].document.warning
    assert "1 of 2 pages has no text" in add(library, file_of(pdf("alpha beta", ""), "b.pdf"))[-1].document.warning
    again = open_library()
    assert ["Cyrillic" in document.warning for document in again.documents()] == [False, True]
    list(again.reindex(steps[-1].document.id))
    assert again.documents()[1].warning == steps[-1].warning
