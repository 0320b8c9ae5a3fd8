"""The residual graph of the difference of two runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...arguments import check, one_of
from ...errors import GraphError, TargetError
from ...model import Target, Trace
from ...model.points import check_seen, values_at
from ..graph import ResidualGraph
from ..operators import Array
from .secants import logarithmic_mean

DIFFERENCE = ", difference"
MEASURES = ("logit", "log-probability", "probability")
"""As what the prediction of a token is compared between two runs."""


@dataclass(frozen=True, eq=False, repr=False)
class Contrast(ResidualGraph):
    """A residual graph whose paths add up to what two runs' logits differ by, `trace` minus `other`.

    Made by `contrast`. Everything that holds for a residual graph holds for it.
    """

    other: Trace | None = None
    mlp_ports: bool = False
    share: float = 0.5
    """How a product's mixed part is divided: see `Runs`."""

    def __repr__(self) -> str:
        return f"<Contrast: {super().__repr__()[1:-1]}>"

    def log_prob(self, token: int | str, position: int = -1) -> Target:
        """Return the target log-probability of a token at a position: a direction of logits that is exact here.

        Δ log p_t = Δz_t − Σ_v w_v Δz_v, with w the logarithmic means of both runs' probabilities, made to add up
        to one. In nats. Raises TokenError for what is not one token, TargetError for a position that is not there.
        """
        one, _, shares = self._softmax(token, position)
        change = float(np.subtract(*(run.log_probs[one.position] @ one.direction for run in self.runs)))
        label = one.label.replace("logit", "log-probability", 1)
        return Target(one.position, read_only(one.direction - shares), "logits", label, change)

    def probability(self, token: int | str, position: int = -1) -> Target:
        """Return the target probability of a token at a position: a direction of logits that is exact here.

        Δp_t = Λ_t (Δz_t − Σ_v w_v Δz_v), with Λ the logarithmic mean of both runs' probabilities and w as in
        `log_prob`. Raises as `log_prob` does.
        """
        one, means, shares = self._softmax(token, position)
        change = float(
            np.subtract(*(np.exp(run.log_probs[one.position]) @ one.direction for run in self.runs))
        )
        direction = float(means @ one.direction) * (one.direction - shares)
        label = one.label.replace("logit", "probability", 1)
        return Target(one.position, read_only(direction), "logits", label, change)

    def measured(self, target: Target, measure: str) -> Target:
        """Return the logit of a token as it is ("logit"), as its log-probability or as its probability.

        Raises TargetError for another measure, or a target that is no logit of one token.
        """
        check("measure", measure, one_of(*MEASURES), TargetError)
        if measure == "logit":
            return target
        tokens = np.flatnonzero(target.direction)
        if target.at != "logits" or len(tokens) != 1 or target.direction[tokens[0]] != 1.0:
            raise TargetError(
                f"measure={measure!r} is asked of the logit of one token; found the target {target.label!r}"
            )
        made = self.log_prob if measure == "log-probability" else self.probability
        return made(int(tokens[0]), target.position)

    def difference(self, target: Target) -> Target:
        """Return a target of either run as what it differs by, here minus there, read off the runs themselves.

        Raises TargetError for the score of a key that one run alone sees: it does not differ by any number.

        >>> import pathexp as px
        >>> model = px.random_model(seed=1)
        >>> here, there = model.run([1, 2]), model.run([3, 2])
        >>> found = px.contrast(here, there).difference(here.logit(4))
        >>> found.label, found.value == here.logit(4).value - there.logit(4).value
        ('logit of 4, difference', True)
        """
        for run in self.runs:
            check_seen(run, target.at, target.position, target.direction)
        streams = (values_at(run, target.at) for run in self.runs)
        change = float(np.subtract(*(stream[target.position] @ target.direction for stream in streams)))
        label = f"{target.label.removesuffix(DIFFERENCE)}{DIFFERENCE}"
        return replace(target, label=label, value=change)

    def score(self, head: str, query: int = -1, key: int = -1) -> Target:
        """Return the target score of a head, from a query position to a key position: what it differs by.

        Scores are those before the softmax, scaled (capped, with slopes). Its paths are those of
        `px.expand(graph, at="L1H0.score")`; `px.attribution(graph, target)` takes it as it is. Raises TargetError
        for a head or a position that is not there, or a key that the query does not see.

        >>> import pathexp as px
        >>> model = px.random_model(layers=2, heads=2, seed=1)
        >>> graph = px.contrast(model.run([1, 2, 3]), model.run([4, 2, 3]))
        >>> score = graph.score("L1H0", query=2, key=0)
        >>> terms = px.expand(graph, at="L1H0.score")
        >>> terms.verify().ok, bool(abs(terms.value(score) - score.value) < 1e-12)
        (True, True)
        """
        here = self.runs[0]
        return self.difference(here.score(head, query, key))

    def _softmax(self, token: int | str, position: int) -> tuple[Target, Array, Array]:
        """The token's logit as a target, and at its position Λ of both runs' probabilities and Λ's shares."""
        here, there = self.runs
        one = here.logit(token, position)
        ours, theirs = here.log_probs[one.position], there.log_probs[one.position]
        means = logarithmic_mean(np.exp(ours), np.exp(theirs), ours - theirs)
        return one, means, means / means.sum()

    @property
    def runs(self) -> tuple[Trace, Trace]:
        """Both runs.

        Raises GraphError if one is missing, as in a graph by hand.
        """
        if self.trace is None or self.other is None:
            raise GraphError("a contrast has two runs; make one with px.contrast(run, other)")
        return self.trace, self.other

    @property
    def expected(self) -> Array:
        """What all paths add up to, computed without them: what both runs' logits differ by, or what stands at `at`."""
        here, there = (values_at(run, self.at) for run in self.runs)
        return here - there


def read_only(array: Array) -> Array:
    """Return an array that nobody writes to any more."""
    array.setflags(write=False)
    return array
