"""Plain English words; a key is an adjective and a noun joined by a hyphen, as in RULER."""

from random import Random

ADJECTIVES = (
    "able amber ancient autumn azure bitter bland blithe bold brave brief bright brisk broad broken bronze busy "
    "calm careful cheap civil classic clean clever coarse cold common copper coral cosy crimson crisp curious curly "
    "damp daring dark deep dense distant dizzy double dry dull dusty eager early easy elder elegant empty faint "
    "fair famous fancy fast feeble fertile fierce final firm flat fluffy fond formal fragile frank fresh frosty "
    "gentle giant gifted glad glossy golden grand grave green gruff handy happy harsh hasty heavy hidden hollow "
    "humble icy idle jolly keen kind lavish lazy light little lively lofty lonely loud loyal lucky magic mellow "
    "merry mighty mild misty modest mute neat nimble noble noisy odd olive open orange pale patient plain pleasant "
    "polite proud purple quaint quick quiet rapid rare ready rich rigid ripe rosy rough round royal rural rusty "
    "sandy scarlet secret serene shallow sharp shiny short shy silent silver simple sleepy slender slow smooth "
    "sober soft solid spare steady steep stern stout strange sturdy subtle sunny sweet swift tall tame tender thick "
    "thin tidy tiny tranquil urban useful vague vast velvet violet vivid warm weary wide wild windy wise witty "
    "young"
).split()
NOUNS = (
    "acorn actor album anchor ankle apron arch arrow artist atlas attic badge bakery balcony bamboo banjo barn "
    "basin basket beacon beard bench berry blanket blossom boat bottle boulder bracelet branch bridge broom bucket "
    "butter button cabin camera candle canoe canyon carpet castle cedar cellar chain chair chapel cherry chimney "
    "circus cliff clock clover coach coast collar comet compass corner cottage cotton cradle crater crayon creek "
    "cricket crown cupboard curtain dagger daisy dancer desert diary dinner doctor dolphin donkey drawer dream drum "
    "eagle echo elbow ember emperor engine envelope estate fabric falcon farmer feather fence fiddle field flame "
    "flute forest fossil fountain garden garlic gate ginger glacier glove goblet grape guitar hammer harbour "
    "harvest hazel helmet hill honey hotel island ivory jacket jewel journal jungle kettle kitchen kite ladder "
    "lagoon lantern lawyer leather lemon letter library lily lizard locket lumber magnet mantle maple marble market "
    "meadow medal melody mirror monkey mountain museum needle nephew nest novel oasis ocean orchard organ otter "
    "oyster paddle painter palace panther paper parcel parrot pasture peach pebble pencil pepper piano pickle "
    "pigeon pillow pirate planet plaza pocket poet pond prairie puzzle quarry quilt rabbit radish raven ribbon "
    "river rocket saddle sailor salmon scarf school shadow shelter shepherd shovel singer spider spoon squirrel "
    "statue stream summit sunset teacher temple theatre thistle thunder tiger timber tower trumpet tulip tunnel "
    "turtle uncle valley village violin voyage waffle wagon walnut weaver whistle window winter wizard yacht"
).split()


def draw_key(rng: Random) -> str:
    """Return a key such as 'quiet-harbour'."""
    return f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"
