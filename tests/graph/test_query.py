"""The path language as text: what can be read, how it prints, and what is said about what cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathexp.errors import PathexpError, QueryError
from pathexp.graph.language import MAX_DEPTH, Atom, Empty, Query, Repeat, sequence
from pathexp.graph.query import everything, query

NAMES = ("E", "U", "L0", "L0H3", "L12H11", "H", "M", "L0M", ".", "steer_1", "_x", "b_U")


def extended(inner):
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: Repeat(*pair)),
        inner.map(lambda q: ~q),
        some.map(sequence),
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    )


queries = st.recursive(st.one_of(st.sampled_from(NAMES).map(Atom), st.just(Empty())), extended, max_leaves=12)


@given(queries)
def test_printing_parses_back(q):
    assert query(str(q)) == q
    assert hash(query(str(q))) == hash(q)
    assert eval(repr(q), {"query": query}) == q


@given(queries, st.data())
def test_white_space_does_not_matter(q, data):
    pieces = str(q).replace("(", " ( ").replace(")", " ) ").replace("|", " | ").split()
    spaces = st.sampled_from([" ", "  ", "\t", "\n"])
    assert query("".join(piece + data.draw(spaces) for piece in pieces)) == q


@given(queries)
def test_parentheses_around_the_whole_do_not_matter(q):
    assert query(f"(({q}))") == q


@given(queries)
def test_a_double_complement_is_the_query_itself(q):
    assert ~~q == q


@given(queries, queries, queries)
def test_set_operators_are_associative_and_idempotent(a, b, c):
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a | a == a == a & a
    assert a & everything == a == everything & a


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("E.*U", "E .* U"),
        ("E(L0H0|L0H1)?U", "E (L0H0 | L0H1)? U"),
        ("((E)) ((U))", "E U"),
        ("E (L0 L1) U", "E L0 L1 U"),
        ("(E L0 | E) U", "(E L0 | E) U"),
        ("(E | U) | H", "E | U | H"),
        ("E | U & H", "E | U & H"),
        ("(E | U) & H", "(E | U) & H"),
        ("~(E) & ~(~(U))", "~(E) & U"),
        ("~( E U )", "~(E U)"),
        ("(~(E))*", "(~(E))*"),
        ("(H*)*", "(H*)*"),
        ("(E U)+", "(E U)+"),
        ("()", "()"),
        ("E () U", "E U"),
        ("()*", "()*"),
        ("() | ~()", "() | ~()"),
    ],
)
def test_canonical_text(text, printed):
    assert str(query(text)) == printed


def test_complement_binds_tighter_than_and_and_tighter_than_or():
    a, b, c = map(query, ("E U", "E H U", "E H H U"))
    assert query("~(E U) & E H U | E H H U") == (~a & b) | c
    assert query("E U | E H U & ~(E H H U)") == a | (b & ~c)
    assert query("E U | E H U & ~(E H H U)") != (a | b) & ~c


def test_sequence_binds_tighter_than_and():
    assert query("E U & H M") == query("(E U) & (H M)") != query("E (U & H) M")


def test_repetition_binds_tighter_than_sequence():
    assert query("E H*") == query("E (H*)") != query("(E H)*")


def test_a_query_is_returned_as_it_is():
    q = query("E U")
    assert query(q) is q and query("E U") is q


def test_everything_is_a_query_with_a_text():
    assert isinstance(everything, Query) and query(str(everything)) == everything


# Every good text beside its nearest bad neighbour, with the place of the caret and what must be said.
NEIGHBOURS = [
    ("E (L0H0) U", "E (L0H0 U", 2, "this ( is never closed"),
    ("E (L0H0) U", "E L0H0) U", 6, "this ) closes nothing"),
    ("E ((L0)) U", "E ((L0) U", 2, "this ( is never closed"),
    ("E | U", "E | | U", 4, "expected a label, '.', '~(' or '(', found |"),
    ("E | U", "E |", 3, "found the end"),
    ("E | U", "| U", 0, "found |"),
    ("E & U", "E & & U", 4, "found &"),
    ("E & U", "E & )", 4, "found )"),
    ("E (() | H) U", "E ( | H) U", 4, "The empty word is written ()"),
    ("E", "", 0, "the query is empty"),
    ("E", " \t ", 0, "the query is empty"),
    ("E ~(U)", "E ~U", 3, "expected ( after ~"),
    ("~(E)", "~", 1, "expected ( after ~"),
    ("~(~(E))", "~~(E)", 1, "expected ( after ~"),
    ("(~(H))*", "~(H)*", 4, "not clear what is repeated"),
    ("~(H*)", "~(H)+", 4, "not clear what is repeated"),
    ("E H* U", "E H** U", 4, "repeated by * is repeated again"),
    ("(H*)?", "H*?", 2, "repeated by * is repeated again"),
    ("H* E", "* E", 0, "nothing stands before * to repeat"),
    ("E (H)+", "E (+)", 3, "nothing stands before + to repeat"),
    ("E H | H?", "E H | ?", 6, "nothing stands before ? to repeat"),
    ("E L0H1 U", "E -> L0H1 -> U", 2, "'-' is not part of the language"),
    ("E L0H1 U", "E → L0H1 → U", 2, "written with spaces"),
    ("E L0H1 U", "E, L0H1, U", 1, "alternatives with |"),
    ("E H H U", "E H{2} U", 3, "write the part as often"),
    ("E (L0H0 | L0H1) U", "E [L0H0 L0H1] U", 2, "(L0H0 | L0H1)"),
    ("E .* U", "^E .* U", 0, "needs no anchor"),
    ("E .* U", "E .* U$", 6, "needs no anchor"),
    ("E ~(H) U", "E !H U", 2, "~(...)"),
    ("E L0H1 U", "E 0H1 U", 2, "do not start with a digit"),
    ("E L0H1 U", "E L0.1 U", 5, "do not start with a digit"),
    ("b_U", "b#U", 1, "'#' is not part of the language"),
    ("E\nU", "E\n%", 2, "'%' is not part of the language"),
    ("E", "É", 0, "'É' is not part of the language"),
]


@pytest.mark.parametrize(("good", "bad", "place", "said"), NEIGHBOURS)
def test_good_texts_and_their_bad_neighbours(good, bad, place, said):
    assert isinstance(query(good), Query)
    with pytest.raises(QueryError) as caught:
        query(bad)
    problem, shown, caret, *advice = str(caught.value).split("\n")
    assert said in "\n".join((problem, *advice)) and "".join(advice)
    assert shown[4:] == "".join(" " if c.isspace() else c for c in bad)
    assert caret == " " * (4 + place) + "^"


@given(st.text(alphabet="EUH0L.*+?|&~() \n{é", max_size=12))
def test_any_text_is_read_or_refused_with_a_caret(text):
    try:
        assert query(str(query(text))) == query(text)
    except QueryError as error:
        assert "^" in str(error).split("\n")[2]


@pytest.mark.parametrize("no_text", [None, 3, b"E U", ("E", "U"), ["E U"]])
def test_only_text_is_read(no_text):
    with pytest.raises(QueryError, match=type(no_text).__name__):
        query(no_text)


def test_set_operators_take_queries():
    with pytest.raises(TypeError):
        query("E U") & "E U"
    with pytest.raises(TypeError):
        "E U" | query("E U")


def test_long_texts_are_shown_around_the_place():
    with pytest.raises(QueryError) as caught:
        query("L0H0 " * 500 + "| | " + "L0H1 " * 500)
    shown, caret = str(caught.value).split("\n")[1:3]
    assert len(shown) < 140 and shown[caret.index("^")] == "|"
    assert shown[4:].startswith("… ") and shown.endswith(" …")


def test_long_texts_are_read():
    assert len(query("L0H0 " * 5000).parts) == 5000


def test_nesting_is_limited_by_a_message():
    deepest = "(" * MAX_DEPTH + "E" + ")" * MAX_DEPTH
    assert query(deepest) == query("E")
    with pytest.raises(QueryError, match=f"more than {MAX_DEPTH} deep"):
        query(f"({deepest})")
    with pytest.raises(QueryError, match=f"more than {MAX_DEPTH} deep"):
        query("(" * 100_000)


def test_nesting_of_values_has_the_same_limit():
    q = query("E")
    for _ in range(MAX_DEPTH):
        q = ~(q & query("U"))
    assert q.depth == MAX_DEPTH and query(str(q)) == q
    with pytest.raises(QueryError, match="combine fewer queries"):
        ~(q & query("U"))


@given(queries)
def test_depth_is_the_nesting_of_the_text(q):
    level = deepest = 0
    for sign in str(q):
        level += (sign == "(") - (sign == ")")
        deepest = max(deepest, level)
    assert q.depth == deepest


def test_its_errors_are_the_packages_errors():
    with pytest.raises(PathexpError):
        query("(")


def test_queries_cannot_be_changed():
    with pytest.raises(AttributeError):
        query("E").name = "U"
