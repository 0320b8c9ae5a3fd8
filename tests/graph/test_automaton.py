"""Machines against an independent oracle: a recursive matcher over words that is written here."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.errors import QueryError
from pathexp.graph.automaton import Alphabet, check_paths, compile_query
from pathexp.graph.query import everything, query

CLASSES = {
    "H": frozenset({"L0H0", "L1H0"}),
    "M": frozenset({"L1M"}),
    "L0": frozenset({"L0H0"}),
    "L1": frozenset({"L1H0", "L1M"}),
}
SMALL = Alphabet(("E",), ("L0H0", "L1H0", "L1M"), ("U",), CLASSES)
WORDS = [word for length in range(5) for word in product(SMALL.labels, repeat=length)]


def grid(layers, heads):
    """The alphabet of an attention-only model."""
    by_layer = {f"L{l}": frozenset(f"L{l}H{h}" for h in range(heads)) for l in range(layers)}
    labels = tuple(f"L{l}H{h}" for l in range(layers) for h in range(heads))
    return Alphabet(("E",), labels, ("U",), {"H": frozenset(labels), "M": frozenset(), **by_layer})


# The oracle: trees are nested tuples, matched by trying every way to cut a word.

MEANING = {**CLASSES, ".": set(SMALL.components), **{label: {label} for label in SMALL.labels}}


def matches(tree, word):
    kind, *inner = tree
    if kind == "atom":
        return len(word) == 1 and word[0] in MEANING[inner[0]]
    if kind == "empty":
        return not word
    if kind == "~":
        return not matches(inner[0], word)
    if kind == "|":
        return any(matches(part, word) for part in inner)
    if kind == "&":
        return all(matches(part, word) for part in inner)
    if kind == "sequence":
        first, rest = inner[0], inner[1:]
        if not rest:
            return matches(first, word)
        return any(
            matches(first, word[:i]) and matches(("sequence", *rest), word[i:]) for i in range(len(word) + 1)
        )
    if not word:
        return kind in "*?" or matches(inner[0], word)
    if kind == "?":
        return matches(inner[0], word)
    return any(
        matches(inner[0], word[:i]) and (i == len(word) or matches(("*", inner[0]), word[i:]))
        for i in range(1, len(word) + 1)
    )


def text_of(tree):
    """The tree as text, with every parenthesis there may be."""
    kind, *inner = tree
    parts = [text_of(part) for part in inner] if kind not in ("atom", "empty") else inner
    match kind:
        case "atom":
            return parts[0]
        case "empty":
            return "()"
        case "~":
            return f"~({parts[0]})"
        case "*" | "+" | "?":
            return f"({parts[0]}){kind}"
        case "sequence":
            return " ".join(f"({part})" for part in parts)
        case _:
            return f" {kind} ".join(f"({part})" for part in parts)


def deeper(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: ("sequence", *parts)),
        st.tuples(st.sampled_from("*+?~"), inner),
        st.tuples(st.sampled_from("|&"), inner, inner),
    )


leaves = st.one_of(st.sampled_from(sorted(MEANING)).map(lambda name: ("atom", name)), st.just(("empty",)))
trees = st.recursive(leaves, deeper, max_leaves=8)
texts = trees.map(text_of)


def machine(text):
    return compile_query(query(text), SMALL)


def same(left, right):
    """Minimal machines with states numbered as they are reached are equal if their words are."""
    return np.array_equal(left.table, right.table) and left.accepting == right.accepting


@settings(max_examples=150, deadline=None)
@given(trees)
def test_a_machine_accepts_what_the_oracle_matches(tree):
    compiled = machine(text_of(tree))
    for word in WORDS:
        assert compiled.accepts(word) == matches(tree, word), word


def test_the_oracle_can_say_both():
    tree = ("sequence", ("atom", "E"), ("*", ("atom", ".")), ("atom", "U"))
    assert matches(tree, ("E", "L1M", "U")) and not matches(tree, ("E", "E", "U"))
    assert matches(("+", ("empty",)), ()) and not matches(("+", ("atom", "E")), ())


@given(texts)
def test_printing_does_not_change_the_words(text):
    assert same(machine(str(query(text))), machine(text))


@given(texts, texts)
def test_de_morgan(a, b):
    p, q = query(a), query(b)
    assert same(compile_query(~(p & q), SMALL), compile_query(~p | ~q, SMALL))
    assert same(compile_query(~(p | q), SMALL), compile_query(~p & ~q, SMALL))


@given(texts, texts, texts)
def test_set_algebra(a, b, c):
    def compiled(q):
        return compile_query(q, SMALL)

    p, q, r = map(query, (a, b, c))
    assert same(compiled(p & (q | r)), compiled((p & q) | (p & r)))
    assert same(compiled(p | q), compiled(q | p)) and same(compiled(p & q), compiled(q & p))
    assert same(compiled(p | (p & q)), compiled(p))
    assert same(compiled(p | ~p), compiled(everything))
    assert same(compiled(p & ~p), compiled(~everything))
    assert same(compiled(~~p), compiled(p))


@given(texts, texts)
def test_laws_of_sequence_and_repetition(a, b):
    assert same(machine(f"({a}) ({b})*"), machine(f"({a}) | ({a}) ({b})+"))
    assert same(machine(f"({a})+"), machine(f"({a}) ({a})*"))
    assert same(machine(f"({a})?"), machine(f"() | ({a})"))
    assert same(machine(f"(({a})*)*"), machine(f"({a})*"))
    assert same(machine(f"(({a}) | ({b}))*"), machine(f"(({a})* ({b})*)*"))


def next_states(compiled, state):
    return {int(target) for target in compiled.table[state] if target >= 0}


def closure(first, successors):
    found, queue = set(first), list(first)
    while queue:
        fresh = successors(queue.pop()) - found
        found |= fresh
        queue.extend(fresh)
    return found


def told_apart(compiled):
    """All pairs of states that some word tells apart, by filling the table of pairs; -1 is the dead state."""
    states = range(-1, compiled.states)
    step = np.vstack([compiled.table, np.full((1, compiled.table.shape[1]), -1)])  # row -1 is dead
    apart = {frozenset(p) for p in combinations(states, 2) if len(set(p) & compiled.accepting) == 1}
    while True:
        new = {
            frozenset(p)
            for p in combinations(states, 2)
            if frozenset(p) not in apart
            and any(frozenset(map(int, q)) in apart for q in zip(step[p[0]], step[p[1]], strict=True))
        }
        if not new:
            return apart
        apart |= new


@settings(max_examples=100, deadline=None)
@given(texts)
def test_machines_are_minimal(text):
    compiled = machine(text)
    states = set(range(compiled.states))
    assert closure({compiled.start}, lambda state: next_states(compiled, state)) == states
    if not compiled.accepting:
        assert compiled.states == 1 and (compiled.table == -1).all()
        return
    before = {state: {s for s in states if state in next_states(compiled, s)} for state in states}
    assert closure(compiled.accepting, before.get) == states
    assert told_apart(compiled) == {frozenset(pair) for pair in combinations(range(-1, compiled.states), 2)}


def test_the_form_of_a_machine():
    compiled = machine("E .* L1H0 U")
    assert compiled.table.shape == (compiled.states, len(SMALL.labels)) == (4, 5)
    assert np.issubdtype(compiled.table.dtype, np.integer) and not compiled.table.flags.writeable
    assert compiled.table.min() == -1 and compiled.start == 0 and len(compiled.accepting) == 1
    assert SMALL.labels == ("E", "L0H0", "L1H0", "L1M", "U")


def test_everything_has_one_state_and_nothing_has_one():
    assert machine(str(everything)).states == 1
    assert all(machine(str(everything)).accepts(word) for word in WORDS)
    assert not any(machine(str(~everything)).accepts(word) for word in WORDS)


def test_a_foreign_label_is_never_accepted():
    assert not machine(str(everything)).accepts(["L7H7"])


def test_words_out_of_order_are_words():
    assert machine("E L1H0 L0H0 U").accepts(("E", "L1H0", "L0H0", "U"))


def test_classes():
    assert same(machine("."), machine("L0H0 | L1H0 | L1M"))
    assert same(machine("."), machine("H | M"))
    assert same(machine("L1"), machine("L1H0 | L1M"))
    assert not same(machine("."), machine("H"))


def test_machines_are_made_once():
    other = Alphabet(SMALL.sources, SMALL.components, SMALL.sinks, dict(CLASSES))
    assert other is not SMALL and other == SMALL and hash(other) == hash(SMALL)
    assert compile_query(query("E.*U"), other) is compile_query(query("E .* U"), SMALL)
    smaller = Alphabet(SMALL.sources, SMALL.components, SMALL.sinks, {})
    assert smaller != SMALL


# Names -------------------------------------------------------------------------------------------------


def refused(text, alphabet=None):
    with pytest.raises(QueryError) as caught:
        compile_query(query(text), alphabet or grid(2, 3))
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("good", "bad", "said", "near"),
    [
        ("E L1H0 U", "E L9H0 U", "no node L9H0: it has 2 layers (L0 … L1)", "L1H0"),
        ("E L1H2 U", "E L1H9 U", "no node L1H9: layer 1 has 3 components (L1H0 … L1H2)", "L1H2"),
        ("E L1H0 U", "E l1h0 U", "no node l1h0: layer 1 has 3 components", "L1H0"),
        ("E L1H0 U", "E L1M U", "no node L1M: layer 1 has 3 components", "L1"),
        ("E L1 U", "E L2 U", "no node L2: it has 2 layers", "L1"),
        ("E L1 U", "E L U", "no node L: it has 1 source (E), 6 components (L0H0 … L1H2)", "L1"),
        ("E .* U", "E .* u", "no node u: it has 1 source (E)", "U"),
        ("E .* U", "embedding .* U", "6 components (L0H0 … L1H2) and 1 sink (U)", "case-sensitive"),
        ("E H U", "E M U", "M stands for nothing here: this graph has no MLPs", "Leave M out"),
    ],
)
def test_unknown_names_and_their_known_neighbours(good, bad, said, near):
    assert compile_query(query(good), grid(2, 3)).accepting
    problem, shown, caret, advice = refused(bad)
    assert said in problem and near in advice
    unknown = next(name for name in bad.split() if name not in good.split())
    assert shown[caret.index("^") :].startswith(unknown)


def test_the_first_unknown_name_is_pointed_at_not_a_longer_one():
    _, shown, caret, _ = refused("E (L1H0 | L1H1) L1H U")
    assert shown[caret.index("^") :].startswith("L1H U")


def test_nearest_names_come_first():
    assert refused("E L1H3 U")[3].startswith("Nearest: L1H")


def test_a_model_of_no_layers_has_no_heads_but_all_its_paths():
    empty = grid(0, 0)
    compiled = compile_query(query("E .* U"), empty)
    assert compiled.accepts(("E", "U")) and compiled.states == 3
    assert not compile_query(query("E . U"), empty).accepting
    assert "no attention heads" in refused("E H U", empty)[0]
    assert "no layers" in refused("E L0 U", empty)[0]


def test_an_alphabet_of_nothing():
    nothing = Alphabet((), (), (), {})
    assert compile_query(everything, nothing).table.shape == (1, 0)
    assert compile_query(everything, nothing).accepts(())


# Whole paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("E L0H0 U", "L0H0"),
        ("~(E .* L0H0 .* U)", "~(.* L0H0 .*)"),
        ("E .* U & ~(E .* L0H0 .* U)", "E .* U & ~(.* L0H0 .*)"),
        ("E U | E L0H0 U", "E U | E L0H0"),
        ("E L1H0 L0H0 U", "E E U"),
        ("E ~(.* L0H0 .*) U", "E ~(.* L0H0 .*)  U U"),
        ("() | ~()", "() | ~(H)"),
        ("E .* L0H0 .* U & E .* L1H0 .* U", "E .* L0H0 .* U & .* L1H0 .*"),
    ],
)
def test_parts_that_can_match_no_path_are_refused(good, bad):
    check_paths(query(good), grid(2, 3))
    with pytest.raises(QueryError, match="matches no path: a query matches whole paths"):
        check_paths(query(bad), grid(2, 3))


def test_unknown_names_are_seen_before_paths():
    with pytest.raises(QueryError, match="no node L9H0") as caught:
        check_paths(query("L9H0"), grid(2, 3))
    assert str(caught.value).split("\n")[1] == "    L9H0"


# Size --------------------------------------------------------------------------------------------------


LARGE = "E .* L3H5 .* L7H2 .* U"


@pytest.mark.parametrize("heads", [25, 400, 1700])
@pytest.mark.parametrize(
    ("text", "states"),
    [(LARGE, 5), (f"~({LARGE})", 6), (f"{LARGE} & ~(E .* L8H1 .* U) & ~(E L0+ .* U)", 6)],
)
def test_machines_do_not_grow_with_the_model(heads, text, states):
    compiled = compile_query(query(text), grid(12, heads))
    assert compiled.table.shape == (states, 2 + 12 * heads)


def test_any_way_of_writing_many_alternatives_is_the_same_machine():
    alphabet = grid(12, 12)
    longhand = compile_query(query(" | ".join(f"E {label} U" for label in alphabet.components)), alphabet)
    assert same(longhand, compile_query(query("E . U"), alphabet))
    listed = compile_query(query(f"E ({' | '.join(alphabet.components)})* U"), grid(12, 12))
    assert same(listed, compile_query(query("E .* U"), alphabet))


def test_avoiding_many_components_takes_few_states():
    alphabet = grid(12, 12)
    avoided = alphabet.components[::6]
    each = " & ".join(f"~(E .* {label} .* U)" for label in avoided)
    compiled = compile_query(query(f"E .* U & {each}"), alphabet)
    kept = [label for label in alphabet.components if label not in avoided]
    assert same(compiled, compile_query(query(f"E ({' | '.join(kept)})* U"), alphabet))


def test_a_long_path_is_read():
    alphabet = grid(300, 1)
    optional = "E " + " ".join(f"{label}?" for label in alphabet.components) + " U"
    compiled = compile_query(query(optional), alphabet)
    assert compiled.accepts(("E", *alphabet.components[::7], "U"))
    assert not compiled.accepts(("E", *alphabet.components[:2][::-1], "U"))


def test_the_deepest_query_is_compiled():
    text = "E"
    for sign in "*+?" * 5:
        text = f"(~({text} L0H0) | L1H0){sign}"
    assert query(text).depth == 30 and machine(text).accepting


def test_a_machine_that_would_be_too_large_is_refused_and_its_neighbour_is_not():
    alphabet = grid(12, 12)
    assert compile_query(query(f"E .* L0H0 {'. ' * 8} U"), alphabet).states == 2**9 + 2
    problem = refused(f"E .* L0H0 {'. ' * 40} U", alphabet)[0]
    assert "100,000 transitions over 4 kinds of labels (25,00" in problem and "E .* L0H0 . ." in problem


def test_a_table_that_would_be_too_large_is_refused():
    problem = refused(f"E .* L0H0 {'. ' * 10} U", grid(20, 1000))[0]
    assert "2,050 states × 20,002 labels" in problem
