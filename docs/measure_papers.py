"""Measure what two papers claim on the models that ship, and write the table of docs/papers.md.

    python docs/measure_papers.py --corpus tinyshakespeare.txt [--write]

Prints the table; with --write puts it into the page. About a minute of one core. The papers: Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits" (E), and Olsson et al. 2022, "In-context Learning and Induction Heads" (O).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

import pathexp as px
from pathexp.circuits.heads.copying import copying, ov_spectrum
from pathexp.circuits.heads.head import every_head

PAGE = Path(__file__).resolve().with_name("papers.md")
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
WINDOWS, EARLY, LATE = 1000, 20, 120
"""Windows of the losses by position, and between which positions in-context learning is measured."""


@dataclass(frozen=True)
class Claim:
    """What a paper says, what is measured here, whether it agrees, and why."""

    paper: str
    section: str
    says: str
    measured: str
    agrees: bool | None
    why: str = ""

    def row(self, number: int) -> str:
        """The claim as a row of a Markdown table."""
        word = {True: "yes", False: "no", None: "in part"}[self.agrees]
        return f"| {number} | {self.paper}, “{self.section}” | {self.says} | {self.measured} | {word} | {self.why} |"


class Measures:
    """What several claims share, each measured once."""

    def __init__(self, corpus: Path) -> None:
        self.corpus = corpus
        self.none, self.one, self.two = (px.load(f"attn-{n}l") for n in range(3))

    @cached_property
    def induction(self) -> px.Answer:
        return px.induction(self.two)

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The induction heads of attn-2l."""
        return self.induction.from_attention

    @cached_property
    def composition(self) -> px.Answer:
        return px.composition(self.two)

    @cache  # noqa: B019
    def orders(self, zero: str) -> px.Answer:
        sampled = px.Corpus(self.corpus, windows=20, sample=0)
        return px.order_importance(self.two, sampled, max_order=1 if zero == "zero" else -1, zero=zero)

    @cached_property
    def windows(self) -> list[np.ndarray]:
        return list(px.Corpus(self.corpus, 128, WINDOWS, sample=1).cut(self.two))

    def learned(self, model: px.Model, without: tuple[str, ...] = ()) -> np.ndarray:
        """Loss around an early position minus around a late one, by window; heads out of the logits, patterns frozen."""
        losses = np.array([_losses(model, window, without) for window in self.windows])
        early, late = (losses[:, at - 5 : at + 5].mean(axis=1) for at in (EARLY, LATE))
        return early - late


def _mean(values: np.ndarray, digits: int = 2) -> str:
    return f"{values.mean():+.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def _beyond_noise(values: np.ndarray) -> bool:
    """Whether a mean is over two standard errors above zero."""
    return bool(values.mean() > 2 * values.std(ddof=1) / np.sqrt(len(values)))


def _losses(model: px.Model, window: np.ndarray, without: tuple[str, ...]) -> np.ndarray:
    trace = model.run(window)
    logits = np.array(trace.logits)
    for label in without:
        layer, head = map(int, label[1:].split("H"))
        logits -= trace.head_results[layer, head] @ model.weights.W_U.T
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(window) - 1), window[1:]]


def claims(m: Measures) -> Iterator[Claim]:
    """Every claim, measured."""
    for measure in MEASURED:
        yield measure(m)


def bigrams(m: Measures) -> Claim:
    found = px.bigrams(m.none, str(m.corpus))
    return Claim(
        "E", "Zero-Layer Transformers", "the optimal W_U W_E approximates the bigram log-likelihood",
        f"attn-0l: rank correlation {found.rank_correlation:.2f} over {int(found.kept.sum()):,} bigrams; KL "
        f"{found.kl:.2f} nats per token from this text's own table",
        found.rank_correlation > 0.7, "the table has rank 128 of 1,024, and was also trained on another text",
    )  # fmt: skip


def copying_heads(m: Measures) -> Claim:
    scores = [each.ov.positive for each in copying(m.one)]
    significant = sum(score > 0.9 for score in scores)
    return Claim(
        "E", "Detecting Copying Behavior", "10 of 12 heads of a one-layer model copy (positive eigenvalues)",
        f"attn-1l: {significant} of {len(scores)} with over 90 % of Σ\\|λ\\| positive, {sum(s > 0.5 for s in scores)} with over half",
        significant > len(scores) / 2 or None if significant else False,
        "small vocabulary of letters and pieces: heads that spell words compete with copying",
    )  # fmt: skip


def diagonal(m: Measures) -> Claim:
    heads = list(every_head(m.one))
    positive = [float((np.diag(head.ov_table.dense()) > 0).mean()) for head in heads]
    return Claim(
        "E", "Detecting Copying Behavior", "diagonals of OV tables lean very positive",
        f"attn-1l: {np.mean(positive):.0%} of diagonal entries are positive; by head {min(positive):.0%} to {max(positive):.0%}",
        bool(np.mean(positive) > 0.7) or None, "no head of attn-1l copies much (2)",
    )  # fmt: skip


def ranks(m: Measures) -> Claim:
    table = px.head(m.one, "L0H0").ov_table
    measured = int(np.linalg.matrix_rank(table.dense()))
    return Claim(
        "E", "Summarizing OV/QK Matrices", "expanded tables are vocabulary × vocabulary, of rank d_head only",
        f"attn-1l: {table.shape[0]:,} × {table.shape[1]:,}, rank {measured} = d_head", measured == m.one.config.d_head,
    )  # fmt: skip


def random_eigenvalues(m: Measures) -> Claim:
    models = [
        px.random_model(layers=1, heads=8, d_model=128, d_head=16, d_vocab=256, seed=seed)
        for seed in range(8)
    ]
    signs = [
        (ov_spectrum(head).eigenvalues.real > 0).mean() for model in models for head in every_head(model)
    ]
    error = np.std(signs) / np.sqrt(len(signs))
    return Claim(
        "E", "Detecting Copying Behavior", "random matrices have as many positive as negative eigenvalues",
        f"64 heads of random models: {np.mean(signs):.1%} ± {error:.1%} with a positive real part",
        bool(abs(np.mean(signs) - 0.5) < 4 * error),
    )  # fmt: skip


def positional(m: Measures) -> Claim:
    found = px.heads(m.one)
    names = [
        head.label
        for head in found.types.heads
        if head.type in ("positional", "previous token", "fixed offset")
    ]
    return Claim(
        "E", "Primarily Positional Attention Heads", "one-layer models have a small number of mainly positional heads",
        f"attn-1l: {len(names)} of 8 ({', '.join(names)})", 0 < len(names) <= 4,
        "by 40 % of attention at fixed distances on random tokens",
    )  # fmt: skip


def bugs(m: Measures) -> Claim:
    found = px.skip_trigrams(m.one, k=1, bugs=8)
    rows = [row for row in found.records("bugs") if row["part"] == "forced"]
    measured = sum(bool(row["significant"]) for row in rows)
    return Claim(
        "E", "Skip-Trigram “Bugs”", "what raises two skip-trigrams must raise the two crossed ones too",
        f"attn-1l: of {len(rows)} crossed ones that the tables force, {measured} rise significantly in the running model",
        measured > 0.75 * len(rows), "where not, another head attends elsewhere or the bigram hides it",
    )  # fmt: skip


def frozen(m: Measures) -> Claim:
    verdict = px.expand(m.two.run("Macbeth shall sleep no more. Macbeth shall")).verify()
    return Claim(
        "E", "OV and QK Independence (The Freezing Attention Patterns Trick)", "with frozen patterns logits are linear in the tokens",
        f"attn-2l: the 81 paths add up to the forward pass to {verdict.max_error:.0e}", verdict.ok,
    )  # fmt: skip


def bandwidth(m: Measures) -> Claim:
    row = px.bottlenecks(m.two).records()[1]
    return Claim(
        "E", "Subspaces and Residual Stream Bandwidth", "far more dimensions are written than the stream has (at layer 25 of 50: 100 times, neurons alone)",
        f"attn-2l: {row['written']} written before layer 1, of {m.two.config.d_model}", row["written"] > m.two.config.d_model,
        "25 layers × 4 d_model neurons are 100 d_model; one attention layer writes its width",
    )  # fmt: skip


def embeddings(m: Measures) -> Claim:
    values = (
        np.linalg.svd(m.two.weights.W_E - m.two.weights.W_E.mean(axis=1, keepdims=True), compute_uv=False)
        ** 2
    )
    half = int(np.searchsorted(np.cumsum(values) / values.sum(), 0.5)) + 1
    return Claim(
        "E", "Subspaces and Residual Stream Bandwidth", "token embeddings lie in a small fraction of the dimensions (in models with large d_model)",
        f"attn-2l: half of the variance of W_E in {half} of 128 dimensions", half < 128 / 4,
        "d_model is small here; all of it is wanted for 1,024 tokens",
    )  # fmt: skip


def eraser_hints(m: Measures) -> Claim:
    heads = px.heads(m.two)
    opposed = [
        head.label for head in every_head(m.two)
        if np.linalg.eigvals((head.reads("V") @ head.writes).dense()).real.max() < 0
    ]  # fmt: skip
    current = (
        max((heads[label].attention["current token"], label) for label in opposed)
        if opposed
        else (0.0, "none")
    )
    return Claim(
        "E", "Subspaces and Residual Stream Bandwidth", "some heads have large negative eigenvalues of W_OV and attend mainly to the present token",
        f"attn-2l: {', '.join(opposed) or 'no head'} with all eigenvalues negative; attention to the present token at most {current[0]:.0%}",
        bool(opposed and current[0] > 0.5), "no norm and no MLP: nothing here is gained by clearing",
    )  # fmt: skip


def k_composition(m: Measures) -> Claim:
    scores, readers = m.composition, m.heads
    rows = [row for row in scores.records() if row["reader"] in readers and row["port"] == "K"]
    best = {
        reader: max((r for r in rows if r["reader"] == reader), key=lambda r: r["z"])["writer"]
        for reader in readers
    }
    return Claim(
        "E", "Analyzing a Two-Layer Model", "K-composition of the induction heads with one head of layer 0",
        f"attn-2l: the keys of {', '.join(readers)} read {', '.join(sorted(set(best.values())))} most", set(best.values()) == {"L0H2"},
    )  # fmt: skip


def only_k(m: Measures) -> Claim:
    pairs = [
        r
        for r in m.composition.records()
        if re.fullmatch(r"L1H\d", r["reader"]) and re.fullmatch(r"L0H\d", r["writer"])
    ]
    count = {port: sum(r["port"] == port and r["z"] > 4 for r in pairs) for port in "QKV"}
    return Claim(
        "E", "Analyzing a Two-Layer Model", "no other composition is significant (as first printed; the correction shows more)",
        f"attn-2l: pairs of heads over 4 deviations: {count['K']} by keys, {count['Q']} by queries, {count['V']} by values",
        count["Q"] + count["V"] == 0, "the correction of the figure agrees with us: there is other composition as well",
    )  # fmt: skip


def one_layer(m: Measures) -> Claim:
    found = px.induction(m.one)
    return Claim(
        "E, O", "Induction Heads” and “Key Concepts", "one layer has no induction heads",
        f"attn-1l: {found.verdict}; the second copy's loss falls by {found.types.losses[0].fall:.2f} nats per token", found.verdict == "none",
    )  # fmt: skip


def random_repeats(m: Measures) -> Claim:
    loss = m.induction.types.losses[0]
    return Claim(
        "E", "Function of Induction Heads", "they repeat sequences of random tokens",
        f"attn-2l: loss {loss.first:.2f} nats per token in the first copy of {loss.length}, {loss.second:.2f} in the second", loss.second < 0.1 * loss.first,
        "attn-2l was trained on repetition too",
    )  # fmt: skip


def corner(m: Measures) -> Claim:
    pairs = [m.induction.strongest_pair(label) for label in m.heads]
    matching, copies = min(p.matching.score for p in pairs), min(p.copying.score for p in pairs)
    others = max(
        p.most
        for h in m.induction.types.heads
        if h.label not in m.heads and (p := m.induction.strongest_pair(h.label))
    )
    return Claim(
        "E", "Checking the Mechanistic Theory", "all induction heads are in the corner of positive QK (through the previous-token head) and OV eigenvalues",
        f"attn-2l: QK ≥ {matching:.3f}, OV ≥ {copies:.3f} for all {len(pairs)}; others at most {others:+.2f}", min(matching, copies) > 0.95 > others,
    )  # fmt: skip


def shifted_keys(m: Measures) -> Claim:
    shares = [score.share for score in m.induction.scores]
    return Claim(
        "E", "How Induction Heads Work", "keys are computed from the token one back (K-composition)",
        f"attn-2l: {min(shares):.0%} to {max(shares):.0%} of the induction position's advantage come through keys made by L0H2; through queries "
        f"at most {max(s.query_share for s in m.induction.scores):.0%}",
        min(shares) > 0.5, "the rest is joint, or other keys",
    )  # fmt: skip


def previous_token(m: Measures) -> Claim:
    found = m.induction.types["L0H2"]
    return Claim(
        "E", "Analyzing a Two-Layer Model", "the first-layer head attends mainly to the previous token",
        f"attn-2l: L0H2 {found.attention['previous token']:.0%}", found.attention["previous token"] > 0.5,
    )  # fmt: skip


def virtual(m: Measures) -> Claim:
    shares = {
        zero: float(m.orders(zero).marginal[1] / m.orders(zero).marginal.sum()) for zero in ("zero", "mean")
    }
    return Claim(
        "E", "Term Importance Analysis", "virtual attention heads have a small marginal effect",
        f"attn-2l: {shares['zero']:.0%} of what heads reduce the loss with zero ablation (theirs), {shares['mean']:.0%} with mean ablation",
        None if shares["zero"] > 0.2 else True, "set to zero, they take a constant with them that acts as a bias",
    )  # fmt: skip


def second_layer(m: Measures) -> Claim:
    increase = dict(m.orders("zero").term_increase())
    first, second = (sum(v for k, v in increase.items() if k.startswith(f"E L{n}")) for n in (0, 1))
    return Claim(
        "E", "Term Importance Analysis", "of single heads, those of layer 2 matter more than those of layer 1",
        f"attn-2l: loss increases by {second:.2f} nats per token summed over heads of the second layer, {first:.2f} of the first", second > first,
    )  # fmt: skip


def definition(m: Measures) -> Claim:
    found = [m.induction.types[label] for label in m.heads]
    return Claim(
        "O", "Key Concepts", "induction heads match prefixes and copy, on repeated random tokens",
        f"attn-2l: {len(found)} of 16 heads; prefix matching {min(h.attention['induction'] for h in found):.2f} to "
        f"{max(h.attention['induction'] for h in found):.2f}, next token raised most at {min(h.copied for h in found):.0%} to "
        f"{max(h.copied for h in found):.0%} of queries",
        len(found) > 0, "a continuum, as they say: the weakest copies half the time",
    )  # fmt: skip


def learning_by_depth(m: Measures) -> Claim:
    one, two = m.learned(m.one), m.learned(m.two)
    return Claim(
        "O", "Argument 1", "deeper models learn in context (0.4 nats between tokens 50 and 500), one layer hardly does",
        f"loss around token {EARLY} less that around {LATE}: attn-1l {_mean(one)}, attn-2l {_mean(two)} nats; the difference {_mean(two - one)}",
        (True if (two - one).mean() > 0.15 else None) if _beyond_noise(two - one) else False,
        "the sign, not the size: n_ctx is 128, and 100 tokens of a play repeat little",
    )  # fmt: skip


def ablated(m: Measures) -> Claim:
    whole, without = m.learned(m.two), m.learned(m.two, m.heads)
    lost = whole - without
    return Claim(
        "O", "Argument 3", "knocking out induction heads removes almost all in-context learning of small attention-only models",
        f"attn-2l: {_mean(whole)} nats with them, {_mean(without)} without all {len(m.heads)}; lost {_mean(lost)}",
        _beyond_noise(lost) and bool(lost.mean() > 0.8 * whole.mean()), "patterns frozen, as theirs; all induction heads at once; there was little to lose (see 22)",
    )  # fmt: skip


def others_ablated(m: Measures) -> Claim:
    whole = m.learned(m.two)
    others = [f"L1H{h}" for h in range(8) if f"L1H{h}" not in m.heads]
    changes = {label: m.learned(m.two, (label,)) - whole for label in others}
    up = sum(map(_beyond_noise, changes.values()))
    return Claim(
        "O", "Argument 3", "ablating most other heads increases in-context learning",
        "attn-2l, other heads of layer 1: " + ", ".join(f"{label} {_mean(change, 3)}" for label, change in changes.items()),
        up > len(others) / 2 or (None if up else False), "what normal prediction loses is left to the context",
    )  # fmt: skip


MEASURED: tuple[Callable[[Measures], Claim], ...] = (
    bigrams, copying_heads, diagonal, ranks, random_eigenvalues, positional, bugs, frozen, bandwidth, embeddings,
    eraser_hints, k_composition, only_k, previous_token, shifted_keys, corner, random_repeats, one_layer, virtual,
    second_layer, definition, learning_by_depth, ablated, others_ablated,
)  # fmt: skip


def table(corpus: Path) -> str:
    """The table in Markdown."""
    head = "| | source | says | measured here | agrees | why, and what differs |\n|---|---|---|---|---|---|"
    measures = Measures(corpus)
    return "\n".join([head, *(claim.row(n) for n, claim in enumerate(claims(measures), 1))])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = table(given.corpus)
    print(made)
    if given.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")
