"""Labels: what is printed is read again, and what spells none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pathexp as px
from pathexp.labels import Label, head_label, mlp_label, neuron_label, read_label

NUMBERS = st.integers(0, 10**6)
NAMES = st.sampled_from(["", "b_V", "b_attn", "A", "W_OV", "dW_Q"])
PORTS = st.sampled_from(["", "V", "Q", "gate"])
LABELS = st.one_of(
    st.builds(Label, NAMES, NUMBERS, st.sampled_from("HN"), NUMBERS, PORTS),
    st.builds(Label, NAMES, NUMBERS, st.sampled_from(["", "M"]), st.none(), PORTS),
    st.builds(Label, st.sampled_from(["E", "P", "U", "steer", "b_U", "L", "L0X"]), port=PORTS),
)


@given(LABELS)
def test_what_is_printed_is_read_again(label):
    assert read_label(str(label)) == label and read_label(str(label.node)) == label.node


@pytest.mark.parametrize("text", ["", "L0H1 U", "0", ".V", "L0H1.", "L0H1.V.Q", "é", "a-b"])
def test_what_spells_no_label_is_refused(text):
    with pytest.raises(ValueError, match="expected the label of a node"):
        read_label(text)


@pytest.mark.parametrize("text", ["L00H1", "L0H01"])
def test_a_number_has_one_spelling(text):
    assert read_label(text).layer is None


def test_every_node_of_a_run_has_a_label_that_is_read():
    trace = px.random_model(layers=2, heads=2, d_mlp=4, norm="layernorm", biases=True).run([1, 2])
    for node in px.freeze(trace, neurons={0: [3]}).nodes():
        assert str(read_label(node.label)) == node.label


def test_components_are_ordered_as_a_forward_pass_meets_them():
    order = ["E", "L0H0", "L0H2", "L0H10", neuron_label(0, 3), mlp_label(0), head_label(2, 0), "L10H0"]
    assert [str(label) for label in sorted(map(read_label, reversed(order)))] == order
