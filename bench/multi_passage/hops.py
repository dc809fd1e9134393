"""Two-hop questions: a fact about the subject names a bridge, and a fact about the bridge holds the answer."""

from random import Random

from bench.multi_passage import names
from bench.multi_passage.facts import FactSample, TwoFacts

TEMPLATES = (
    TwoFacts(
        lambda rng: (names.thing(rng), names.building(rng), names.person(rng)),
        ("The {subject} is kept in the {bridge}.", "The {bridge} houses the {subject}."),
        ("The {bridge} belongs to {answer}.", "{answer} owns the {bridge}."),
        "Who owns the building where the {subject} is kept?",
    ),
    TwoFacts(
        lambda rng: (names.thing(rng), names.building(rng), names.town(rng)),
        ("The {subject} was found in the {bridge}.", "Workers found the {subject} in the {bridge}."),
        ("The {bridge} is located in {answer}.", "The {bridge} is a building in {answer}."),
        "In which town is the building where the {subject} was found?",
    ),
    TwoFacts(
        lambda rng: (names.person(rng), names.company(rng), names.town(rng)),
        ("{subject} works for {bridge}.", "{bridge} employs {subject}."),
        ("{bridge} has its head office in {answer}.", "The head office of {bridge} is in {answer}."),
        "In which town is the head office of the company that {subject} works for?",
    ),
    TwoFacts(
        lambda rng: (names.title(rng), names.person(rng), names.town(rng)),
        ('The novel "{subject}" was written by {bridge}.', '{bridge} is the author of the novel "{subject}".'),
        ("{bridge} was born in {answer}.", "{answer} is the birthplace of {bridge}."),
        'In which town was the author of the novel "{subject}" born?',
    ),
    TwoFacts(
        lambda rng: (names.ship(rng), names.person(rng), names.town(rng)),
        ("The captain of the ferry {subject} is {bridge}.", "{bridge} is the captain of the ferry {subject}."),
        ("{bridge} lives in {answer}.", "The home of {bridge} is in {answer}."),
        "In which town does the captain of the ferry {subject} live?",
    ),
    TwoFacts(
        lambda rng: (names.ship(rng), names.person(rng), names.count(rng)),
        ("The {subject} project is led by {bridge}.", "{bridge} leads the {subject} project."),
        ("The phone extension of {bridge} is {answer}.", "{bridge} has the phone extension {answer}."),
        "What is the phone extension of the person who leads the {subject} project?",
    ),
    TwoFacts(
        lambda rng: (names.company(rng), names.company(rng), names.year(rng)),
        ("{subject} is a subsidiary of {bridge}.", "{bridge} is the parent company of {subject}."),
        ("{bridge} was founded in {answer}.", "The year of the foundation of {bridge} is {answer}."),
        "In which year was the parent company of {subject} founded?",
    ),
    TwoFacts(
        lambda rng: (names.title(rng), f"{names.town(rng)} Museum", names.year(rng)),
        ('The painting "{subject}" hangs in the {bridge}.', 'The {bridge} shows the painting "{subject}".'),
        ("The {bridge} opened in {answer}.", "The {bridge} was opened in {answer}."),
        'In which year did the museum with the painting "{subject}" open?',
    ),
)


def hop_question(rng: Random) -> FactSample:
    """Return a two-hop question; the facts may come in either order."""
    return rng.choice(TEMPLATES).sample(rng, second_comes_first=False)
