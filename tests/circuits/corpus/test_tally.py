"""Running sums: saved whole or not at all, loaded only if all of it is well; resumed on the same corpus alone."""

import copy
import io
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import threadpoolctl

import pathexp as px
from pathexp.circuits.corpus import state
from pathexp.circuits.corpus.accumulate import accumulate
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.corpus.tally import Tally, question_of
from pathexp.errors import LoadError, PathexpError

WINDOWS = [np.array([k, k + 1]) for k in range(9)]


def ends(window):
    return {"last": np.array([float(window[-1])]), "count": 1}


def counted(most=None, windows=WINDOWS, **limits):
    return accumulate(windows, ends, "ends", most=most, limits=Limits(**limits))


def test_a_tally_is_a_value():
    found = counted(3)
    assert (found.windows, found.tokens, float(found.mean("last")[0])) == (3, 6, 2.0)
    for same in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert same.mark == found.mark and same.sums["last"] == found.sums["last"]
        with pytest.raises(ValueError, match="read-only"):
            same.sums["last"][:] = 0
    with pytest.raises(TypeError):
        found.sums["last"] = 0


def test_saved_and_resumed_it_is_the_whole(tmp_path):
    counted(4).save(tmp_path / "sums.npz")
    resumed, whole = counted(start=Tally.load(tmp_path / "sums.npz")), counted()
    assert (resumed.windows, resumed.mark, resumed.sums["last"]) == (9, whole.mark, whole.sums["last"])
    assert counted(2, start=counted(4)).windows == 4


def test_sums_of_another_corpus_or_question_are_refused():
    for windows in (WINDOWS[1:], WINDOWS[:3], [*WINDOWS[:3], np.array([3, 5])], [np.arange(8)]):
        with pytest.raises(PathexpError, match="another corpus"):
            counted(windows=windows, start=counted(4))
    with pytest.raises(PathexpError, match="begin anew"):
        accumulate(WINDOWS, ends, "beginnings", limits=Limits(start=counted(4)))
    with pytest.raises(PathexpError, match="another shape"):
        accumulate(WINDOWS, lambda window: {"last": np.ones(2)}, "ends", limits=Limits(start=counted(4)))


def test_an_interrupt_and_a_time_limit_keep_what_was_counted(capsys):
    def interrupted(window):
        if window[0] == 2:
            raise KeyboardInterrupt
        return ends(window)

    found = accumulate(WINDOWS, interrupted, "ends", limits=Limits(progress=True))
    assert found.windows == 2 and "ends: stopped after 2 windows" in capsys.readouterr().err
    assert counted(seconds=0).windows == 1


def changed(file, **fields):
    """The bytes of a saved tally with other header fields or arrays; a callable makes a field of the old one."""
    with np.load(file, allow_pickle=False) as arrays:
        members = dict(arrays)
    header = json.loads(str(members.pop("header")))
    for name, value in fields.items():
        place = header if name in header else members
        place[name.replace("__", " ")] = value(place[name.replace("__", " ")]) if callable(value) else value
    held = io.BytesIO()
    np.savez(held, header=np.array(json.dumps(header)), **members)
    return held.getvalue()


WRONG = {
    "empty": lambda file: b"",
    "garbled": lambda file: b"PK no",
    "cut short": lambda file: file.read_bytes()[:200],
    "an array": lambda file: _saved(np.save, np.ones(3)),
    "another npz": lambda file: _saved(np.savez, np.ones(3)),
    "pickled": lambda file: _saved(np.savez, header=np.array([{}], dtype=object)),
    "of another version": lambda file: changed(file, version=1),
    "of negative windows": lambda file: changed(file, windows=-1),
    "of windows as text": lambda file: changed(file, windows="4"),
    "of no number of windows": lambda file: changed(file, windows=None),
    "of NaN tokens": lambda file: changed(file, tokens=float("nan")),
    "of infinite tokens": lambda file: changed(file, tokens=float("inf")),
    "of true tokens": lambda file: changed(file, tokens=True),
    "of fewer tokens than windows": lambda file: changed(file, tokens=1),
    "of a question that is no text": lambda file: changed(file, question=3),
    "of negative sums": lambda file: changed(file, sum__last=lambda array: -array),
    "of NaN sums": lambda file: changed(file, sum__last=lambda array: array * np.nan),
    "of infinite sums": lambda file: changed(file, sum__last=lambda array: array * np.inf),
    "of sums as text": lambda file: changed(file, sum__last=np.array(["a"])),
    "of other sums": lambda file: changed(file, sum__first=np.array([1.0])),
    "of sums of another shape": lambda file: changed(file, sum__last=lambda array: np.append(array, 1.0)),
    "of no windows": lambda file: changed(file, windows=0),
    "of an edited count": lambda file: changed(file, windows=3),
}


def _saved(save, *arrays, **named):
    held = io.BytesIO()
    save(held, *arrays, **named)
    return held.getvalue()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_of_wrong_sums_is_refused_by_name(wrong, tmp_path):
    file = tmp_path / "sums.npz"
    counted(4).save(file)
    file.write_bytes(WRONG[wrong](file))
    with pytest.raises(LoadError, match=r"cannot read saved sums from .*sums\.npz"):
        Tally.load(file)


def test_what_was_saved_stays_whole_if_saving_fails(tmp_path, monkeypatch):
    file = tmp_path / "sums.npz"
    counted(4).save(file)

    def full(opened, **arrays):
        opened.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state.np, "savez", full)
    with pytest.raises(LoadError, match=r"cannot write .*sums\.npz.*No space"):
        counted(9).save(file)
    assert Tally.load(file).windows == 4 and [*tmp_path.iterdir()] == [file]


def test_a_link_and_the_mode_of_a_file_stay(tmp_path):
    file, link = tmp_path / "sums.npz", tmp_path / "link.npz"
    counted(4).save(file)
    file.chmod(0o640)
    link.symlink_to(file)
    counted(9).save(link)
    assert link.is_symlink() and Tally.load(file).windows == 9 and file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("wrong", [{"seconds": -1}, {"seconds": "1"}, {"progress": 1}, {"start": "sums.npz"}])
def test_limits_that_are_none_are_refused(wrong):
    with pytest.raises(PathexpError, match=next(iter(wrong))):
        Limits(**wrong)


def test_sums_of_the_same_weights_read_another_way_are_not_taken_up(tmp_path):
    model = px.load("attn-2l")
    sharper = px.Model(replace(model.config, attention_scale=0.3), model.weights, model.tokenizer, "attn-2l")
    some = px.heads(model, runs=1).tally
    with pytest.raises(PathexpError, match=r"these sums answer .* begin anew"):
        px.heads(sharper, runs=2, limits=Limits(start=some))
    model.save(tmp_path / "attn-2l.npz")
    again = px.load(tmp_path / "attn-2l.npz")
    asked = [question_of("loss", each, 8).partition("weights")[2] for each in (model, again, sharper)]
    assert asked[0] == asked[1] != asked[2]


def test_windows_measured_together_are_added_in_order_and_stopped_as_one_by_one():
    def alone(window):
        return {"last": np.array([10.0 ** int(window[0])])}

    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        for limits in (Limits(), Limits(seconds=0), Limits(start=accumulate(WINDOWS, alone, "ends", most=4))):
            one, several = (
                accumulate(WINDOWS, alone, "ends", limits=limits, together=together)
                for together in (False, True)
            )
            assert several.sums["last"] == one.sums["last"]
            assert (several.windows, several.tokens, several.mark) == (one.windows, one.tokens, one.mark)
