"""Invented names and plausible numbers, drawn at random."""

from random import Random

DESCRIPTORS = (
    "amber black blue bronze carved copper crimson ebony engraved faded folded gilded golden green grey iron ivory "
    "jade leather marble mended oak painted pearl pewter purple red scarlet silver striped velvet white wooden yellow"
).split()
THINGS = (
    "atlas barometer bell bracelet candlestick chronicle clock compass crown cup diary drum flute globe harp helmet "
    "key lantern ledger locket mask mirror necklace organ purse quill ring saddle sword tapestry telescope trumpet "
    "vase violin"
).split()
SITES = "eastern great harbour hillside lower new northern old riverside small southern upper valley western".split()
BUILDINGS = (
    "abbey bakery barn boathouse brewery chapel cottage dairy farmhouse foundry gatehouse granary greenhouse hostel "
    "library lighthouse lodge mill observatory pavilion sawmill smithy stable tannery tower villa warehouse windmill "
    "workshop"
).split()
BIRDS = "Bittern Curlew Dunlin Fulmar Gannet Heron Kestrel Lapwing Osprey Petrel Plover Puffin Shearwater Tern".split()
FIRST_NAMES = (
    "Agneta Alban Brita Casimir Dorte Edvin Elvira Fabian Greta Hedda Ilka Jarle Katrin Ludo Mirela Nils Odile Petra "
    "Quirin Runa Silvan Tilde Ulf Verena Wanda Xenia Yorick Zelda"
).split()
SURNAMES = (
    "Abrand Bellkamp Corvel Drosten Eklin Farnholt Galder Halberg Istvanek Jorsted Kelmar Lindrow Marvik Nordal Ostrek "
    "Pellin Quandt Rostvik Selmer Tarnow Ulvang Vesper Wendrich Yarrod Zelnik"
).split()
TRADES = "Ceramics Foods Freight Glass Metals Optics Paper Printing Shipping Steel Textiles Timber Tools".split()
TOWNS = (
    "Aldmoor Brenholm Carvale Drumstead Elsbeck Farrowby Grimsmouth Hollowick Inverbrae Jessenau Karlow Lunden "
    "Merrowdale Norvik Ottersley Penhallow Quernford Rothenau Stavesund Tornby Uldsmouth Velmar Westerlin Yarnbeck "
    "Zellbrunn"
).split()
MONTHS = "January February March April May June July August September October November December".split()


def thing(rng: Random) -> str:
    """Return an object, such as 'amber lantern'."""
    return f"{rng.choice(DESCRIPTORS)} {rng.choice(THINGS)}"


def building(rng: Random) -> str:
    """Return a building, such as 'old mill'."""
    return f"{rng.choice(SITES)} {rng.choice(BUILDINGS)}"


def person(rng: Random) -> str:
    """Return a person's full name."""
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(SURNAMES)}"


def company(rng: Random) -> str:
    """Return a company's name, such as 'Halberg Shipping'."""
    return f"{rng.choice(SURNAMES)} {rng.choice(TRADES)}"


def town(rng: Random) -> str:
    """Return a town's name."""
    return rng.choice(TOWNS)


def title(rng: Random) -> str:
    """Return the title of a work, such as 'The Amber Lantern'."""
    return f"The {thing(rng).title()}"


def ship(rng: Random) -> str:
    """Return a ship's name, such as 'Silver Heron'."""
    return f"{rng.choice(DESCRIPTORS).title()} {rng.choice(BIRDS)}"


def year(rng: Random) -> str:
    """Return a year of the nineteenth or twentieth century."""
    return str(rng.randint(1805, 1994))


def price(rng: Random) -> str:
    """Return a price from 10.00 to 59.90, always with four digits."""
    return f"{rng.randint(100, 599) / 10:.2f}"


def count(rng: Random) -> str:
    """Return a number of three digits."""
    return str(rng.randint(101, 989))


def date(rng: Random) -> str:
    """Return a day and a month."""
    return f"{rng.randint(2, 27)} {rng.choice(MONTHS)}"
