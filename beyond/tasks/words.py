"""Words that tasks/answers.py knows: numbers, units, and those that change what a number means.

A unit's line is: its names, then how many of the first unit of its kind it is. Names of three
letters or more also have a plural with s. It is a list of our own since a library of units such as
pint knows far more names than an answer may have ("5 a" would be five years).
"""

from fractions import Fraction

# ============================================================== numbers

SMALL = {name: i for i, name in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen".split())}
TENS = {name: 10 * i for i, name in enumerate(
    "twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9,
          "trillion": 10**12, "dozen": 12}
SCALE_LETTERS = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}  # of money: $5k
PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
         "eighth": 8, "ninth": 9, "tenth": 10, "hundredth": 100, "thousandth": 1000}
PLURAL_PARTS = {"halves": 2} | {f"{name}s": n for name, n in PARTS.items() if name != "half"}
SIGNS = {"minus": -1, "negative": -1, "plus": 1, "positive": 1}
NUMBER_WORDS = {*SMALL, *TENS, *SCALES, *PARTS, *PLURAL_PARTS}

# ============================================================== units

KINDS = {
    "length": ["m meter metre: 1", "cm centimeter centimetre: 1/100",
               "km kilometer kilometre: 1000", "mm millimeter millimetre: 1/1000",
               "in inch inches: 0.0254", "ft foot feet: 0.3048",
               "yd yard: 0.9144", "mi mile: 1609.344"],
    "mass": ["g gram gramme: 1", "kg kilogram kilo: 1000", "mg milligram: 1/1000",
             "ton tonne: 1000000", "lb lbs pound: 453.59237", "oz ounce: 28.349523125"],
    "time": ["s sec second: 1", "min minute: 60", "h hr hour: 3600", "day: 86400",
             "week wk: 604800", "ms millisecond: 1/1000"],
    "long time": ["month: 1", "yr year: 12", "decade: 120", "century centuries: 1200"],
    "volume": ["l L liter litre: 1", "ml mL milliliter millilitre: 1/1000",
               "gal gallon: 3.785411784", "quart qt: 0.946352946", "pint pt: 0.473176473",
               "cup: 0.2365882365", "tablespoon tbsp: 1/64", "teaspoon tsp: 1/192"],
    "area": ["hectare ha: 1", "acre: 0.40468564224"],
    "dollar": ["$ dollar USD buck: 1", "cent \u00a2: 1/100"],
    "euro": ["\u20ac euro EUR: 1"], "yen": ["\u00a5 yen JPY: 1"],
    "rupee": ["\u20b9 Rs rupee INR: 1"],
    "sterling": ["\u00a3 GBP: 1"],
    "angle": ["degree deg: 1"], "radian": ["radian rad: 1"],
    "celsius": ["Celsius: 1"], "fahrenheit": ["Fahrenheit: 1"], "kelvin": ["K kelvin: 1"],
    "speed": ["mph: 1.609344", "kph kmh: 1"], "frequency": ["Hz hertz: 1", "kHz: 1000"],
    "power": ["W watt: 1", "kW kilowatt: 1000"], "energy": ["J joule: 1", "kJ: 1000"],
    "heat": ["cal calorie: 1", "kcal: 1000"], "force": ["N newton: 1"],
    "pressure": ["Pa pascal: 1"],
    "voltage": ["V volt: 1"], "current": ["A amp ampere: 1"], "amount": ["mol mole: 1"],
    "": ["unit: 1"],  # any
    "data": ["byte: 1", "kB kilobyte: 1000", "MB megabyte: 1000000", "GB gigabyte: 1000000000"],
}


def _table() -> dict[str, tuple[str, Fraction]]:
    """Return name -> (kind, factor)."""
    table = {}
    for kind, lines in KINDS.items():
        for line in lines:  # an empty kind fits every other one
            names, _, factor = line.rpartition(": ")
            for name in names.split():
                table[name] = (kind, Fraction(factor))
                if len(name) > 2 and name.islower() and not name.endswith("s"):
                    table[f"{name}s"] = table[name]
    return table


UNITS = _table()
CURRENCIES = "$\u20ac\u00a3\u00a5\u20b9"

# ============================================================== words around a number

# Things are counted by any plural, which ends in s, or by one of these.
NOUNS = set("""people children men women feet fish sheep mice geese teeth deer cattle pieces unit
    person child apple egg book student ticket page box point marble mile step time way
    more left total altogether remaining each inclusive apiece old tall long wide high
    """.split()) - {"time"}

# These end in s and count nothing, or change the number before them.
NO_PLURALS = set("""this is was has as us its his does always perhaps thus yes plus minus times less
    versus various ones twos threes fours fives sixes sevens eights nines tens dozens hundreds
    thousands millions billions trillions scores pairs couples dozens grosses percents percentages
    factorials squares cubes powers roots modulus others doubles triples negatives positives fewer
    """.split())

# With one of these next to it a number is no answer.
DENIALS = set("""not no never neither nor none without except cannot isn't aren't wasn't don't
    doesn't can't won't""".split())
BREAKS = DENIALS | set("""about approximately approx around roughly nearly almost circa ca maybe
    perhaps possibly probably likely estimated or either versus vs if unless between than least most
    exceeds exceed over under above below within minimum maximum max min up or/and twice double
    triple doubled tripled squared cubed factorial times plus minus divided multiplied mod modulo
    base power root square cube percent percentage pi wrong incorrect instead rather but
    however wait guess another other less fewer greater negative positive half third quarter
    might may could think believe suppose assume anything everything any range
    pair couple score gross false ish like unlike until through thru
    infinity""".split())

# In a sentence the number stands behind one of these.
STATING = set("""is are was were be equals equal has have had costs cost makes make earns earn gets
    get takes take needs need pays pay spends spend spent sold sells sell bought buys buy left
    remain remains gives give gave yields totals contains holds weighs saves save made got paid won
    owes owe reads eats drinks runs walks drives grows receives collects collect produces uses use
    becomes requires charges covers lasts find obtain ate drank ran went drove grew took cut kept
    put ran read sum total it's that's travels works leaves sees scores raises contribute uses
    """.split())

# A number behind one of these is a name.
LABELS = set("""version chapter room step question problem case option choice figure table equation
    line part exercise example section level grade page type number no day week year month line
    route bus row column item task lesson unit volume""".split())

# What may stand before a stated number and say nothing.
LEADS = set("""so thus hence therefore then the final answer answers is are was were it it's that's
    that there which this be result total of a an we get have has equals equal exactly just only
    simply value solution solutions sum correct number ratio time they he she i
    you in all clearly finally
    """.split())
