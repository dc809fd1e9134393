"""Terms, rates, symbols and abbreviations that are defined in an earlier passage than the one that uses them."""

from random import Random

from bench.multi_passage import names
from bench.multi_passage.facts import FactSample, TwoFacts

PARTIES = "Agent Buyer Carrier Contractor Customer Guarantor Landlord Licensee Operator Seller Supplier Tenant".split()
COSTS = "cleaning heating insurance lighting maintenance rent repair".split()
SHIFTS = ("early work", "evening work", "holiday work", "night work", "overtime", "Sunday work")
LABELS = "ABCDEFGHKLMN"
FIELDS = "Bridge Coast Fishery Forest Harbour Heritage Housing Market Railway Rescue Water Weather".split()
BODIES = "Agency Association Board Bureau Commission Council Fund Institute Office Trust Union".split()
DOCUMENTS = ("annual report", "budget", "inspection report", "inventory", "plan", "safety review", "survey")


def _organization(rng: Random) -> tuple[str, str, str]:
    """Return what an organization is responsible for, its abbreviation, and its name."""
    name = f"{names.town(rng)} {rng.choice(FIELDS)} {rng.choice(BODIES)}"
    return names.building(rng), "".join(word[0] for word in name.split()), name


TEMPLATES = (
    TwoFacts(
        lambda rng: (
            f"the {rng.choice(COSTS)} of the {names.building(rng)}",
            f"the {rng.choice(PARTIES)}",
            names.company(rng),
        ),
        ("{bridge} pays for {subject}.",),
        ('In this contract, "{bridge}" means {answer}.', '{answer} is called "{bridge}" in this contract.'),
        "What is the name of the company that pays for {subject}?",
    ),
    TwoFacts(
        lambda rng: (
            f"{rng.choice(SHIFTS)} in the {names.building(rng)}",
            f"rate {rng.choice(LABELS)}",
            f"{names.price(rng)} euros",
        ),
        ("{subject} is paid at {bridge}.", "{bridge} applies to {subject}."),
        ("{bridge} is {answer} per hour.", "{bridge} means {answer} per hour."),
        "How many euros are paid per hour for {subject}?",
    ),
    TwoFacts(
        _organization,
        ("The {bridge} is responsible for the {subject}.", "The {bridge} looks after the {subject}."),
        ("{bridge} stands for {answer}.", "The abbreviation {bridge} means {answer}."),
        "What is the full name of the organization that is responsible for the {subject}?",
    ),
    TwoFacts(
        lambda rng: (names.building(rng), f"price group {rng.choice(LABELS)}", f"{names.price(rng)} euros"),
        ("The {subject} belongs to {bridge}.", "The {subject} is in {bridge}."),
        ("{bridge} costs {answer} per night.", "A night in {bridge} costs {answer}."),
        "How much does a night in the {subject} cost?",
    ),
    TwoFacts(
        lambda rng: (names.building(rng), f"temperature T{rng.randint(1, 9)}", f"{rng.randint(11, 39)} degrees"),
        ("The {subject} is heated to {bridge}.", "{bridge} applies to the {subject}."),
        ("{bridge} is {answer}.", "{bridge} means {answer}."),
        "To how many degrees is the {subject} heated?",
    ),
    TwoFacts(
        lambda rng: (
            f"the {rng.choice(DOCUMENTS)} of the {names.building(rng)}",
            f"deadline {rng.choice(LABELS)}",
            names.date(rng),
        ),
        ("{subject} is due by {bridge}.", "{bridge} applies to {subject}."),
        ("{bridge} is {answer}.", "{bridge} falls on {answer}."),
        "On which day and in which month is {subject} due?",
    ),
)


def defined_question(rng: Random) -> FactSample:
    """Return a question about a sentence that uses a term; the definitions come first."""
    return rng.choice(TEMPLATES).sample(rng, second_comes_first=True)
