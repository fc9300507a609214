"""Every word of the drawn world. One colour word or object word is one token of the embedded tokenizer.

RGB values are 0-255 base tones; drawing shades them. Classes of a fact (``FACT_CLASSES``) say what a colour, name or
number belongs to.
"""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (205, 38, 38),
    "orange": (243, 124, 22),
    "yellow": (248, 208, 36),
    "lime": (150, 205, 50),
    "green": (32, 128, 60),
    "teal": (20, 150, 150),
    "cyan": (92, 206, 240),
    "blue": (36, 84, 200),
    "purple": (124, 58, 168),
    "pink": (244, 130, 178),
    "brown": (128, 78, 42),
    "black": (38, 38, 42),
    "gray": (140, 144, 150),
    "white": (240, 240, 236),
}
JUMPSUITS = ("jumpsuit",)
HEADWEAR = ("hard hat", "cap", "beanie", "helmet")  # two words are two tokens
TOOLS = (
    "hose",
    "shovel",
    "bucket",
    "hammer",
    "wrench",
    "broom",
    "drill",
    "saw",
    "ladder",
    "rake",
    "axe",
    "brush",
    "flag",
    "lamp",
)
OBJECTS = (
    "cone",
    "barrel",
    "dog",
    "crate",
    "tire",
    "plant",
    "chair",
    "box",
    "pipe",
    "sign",
    "bin",
    "cart",
    "tent",
    "ball",
    "bag",
    "bench",
    "tank",
    "fan",
    "clock",
    "bottle",
    "radio",
    "kite",
    "drum",
    "pump",
    "gate",
    "tree",
    "car",
    "bike",
)
#: Words that signs, labels and receipts show.
SIGN_WORDS = (
    "exit",
    "stop",
    "open",
    "sale",
    "gate",
    "dock",
    "yard",
    "fuel",
    "sand",
    "gravel",
    "cement",
    "paint",
    "bolts",
    "nails",
    "glue",
    "rope",
    "tape",
    "wire",
    "bricks",
    "tiles",
    "timber",
    "steel",
    "glass",
    "gloves",
    "boots",
    "mask",
    "north",
    "south",
    "east",
    "west",
    "danger",
    "keep",
    "total",
    "water",
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
#: Characters of codes. All 36 are used, each a single token; the fonts keep O / 0 and I / 1 apart.
CODE_CHARS = LETTERS + DIGITS
FACT_CLASSES = ("jumpsuit", "headwear", "tool", "object", "word", "letter", "digit", "bar")
KINDS = ("scene", "text", "chart")
