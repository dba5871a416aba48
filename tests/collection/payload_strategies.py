"""Random payloads and filters for property tests, from small pools so that filters often match."""

from hypothesis import strategies as st

from hashlearn.collection.where import All, AnyOf, Compare, Listed, Not

NAMES = [
    "a",
    "b",
    "é色",
    "x-y",
    "sp ace",
    "0",
    "id",
    "payload",
    "a.b",
    "a/b",
    "a~b",
    "quo'te",
    'dou"ble',
    "back\\",
    "[x]",
]
TEXTS = [
    "",
    "a",
    "b",
    "B",
    "é",
    "色",
    "😀",
    "\uffff",
    "5",
    "true",
    "null",
    "x'; DROP TABLE t; --",
    'a"b',
    "a\\b",
    "\n",
    "%",
]
EDGES = [0, 1, -1, 5, 5.0, 5.5, 0.1, 1e-7, 5e-324, 2**53, 2**53 + 1, 2.0**53, 2**62, 2.0**62, 2**63 - 1, -(2**63)]
EDGES += [1e23, 1e300]

numbers = st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.sampled_from(TEXTS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)
payloads = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

_paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(tuple)
_compares = st.one_of(
    st.builds(Compare, _paths, st.sampled_from(["=", "contains"]), scalars),
    st.builds(Compare, _paths, st.sampled_from(["<", "<=", ">", ">="]), numbers | st.sampled_from(TEXTS)),
    st.builds(Compare, _paths, st.just("in"), st.lists(scalars, max_size=4).map(Listed)),
    st.builds(Compare, _paths, st.just("exists"), st.booleans()),
)
conditions = st.recursive(
    _compares,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, max_size=3).map(tuple).map(All),
        st.lists(inner, max_size=3).map(tuple).map(AnyOf),
    ),
    max_leaves=4,
)


def targeted(rows):
    """Conditions that aim at values which the payloads really hold, so that both answers occur."""
    aims = [((name,), value) for row in rows for name, value in row.items()]
    aims += [
        ((name, inner), item) for (name,), value in aims if isinstance(value, dict) for inner, item in value.items()
    ]
    plain = [(path, value) for path, value in aims if not isinstance(value, (list, dict))]
    listed = [(path, item) for path, value in aims if isinstance(value, list) for item in value]
    listed = [(path, item) for path, item in listed if not isinstance(item, (list, dict))]
    made = [Compare(path, "=", value) for path, value in plain]
    made += [Compare(path, "in", Listed((value, None))) for path, value in plain]
    made += [
        Compare(path, sign, value)
        for path, value in plain
        if value is not None and not isinstance(value, bool)
        for sign in ("<", ">=")
    ]
    made += [Compare(path, "contains", item) for path, item in listed]
    return made + [Not(condition) for condition in made]


def same(found, expected):
    """Equal, and of the same types but for floats, which a server may give back as whole numbers."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return isinstance(found, (int, float)) and not isinstance(found, bool) and found == expected
    return type(found) is type(expected) and found == expected
