"""How encoders end: in a head over the vocabulary, over classes of the text, of its tokens, or of spans.

A head over classes of the text reads one position (`[CLS]`, the first) through a dense layer with an activation, a
"pooler"; here it gives its outputs at every position, of which the first are the model's. Which head there is, the
class in `architectures` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...config import Config
from ..gather import Piece
from ..keys import Keys
from ..options import Options
from .plan import layer_norm, linear

MASKED, TEXT, TOKENS, SPANS, NEXT, CHOICE = "masked", "text", "tokens", "spans", "next", "choice"
_BY_CLASS: Mapping[str, str] = {
    "ForMaskedLM": MASKED,
    "ForPreTraining": MASKED,
    "LMHeadModel": MASKED,
    "ForCausalLM": MASKED,
    "Model": MASKED,
    "ForSequenceClassification": TEXT,
    "ForMultipleChoice": CHOICE,
    "ForNextSentencePrediction": NEXT,
    "ForTokenClassification": TOKENS,
    "ForQuestionAnswering": SPANS,
}


@dataclass(frozen=True)
class Ending:
    """What stands behind the last layer: a dense layer with an activation and a norm, if any, then a map to outputs.

    ``dense``, ``norm``, ``head``: the tensors they have, without ".weight"; ``head`` None: the table of tokens, with
    a bias under the name ``bias``.
    """

    dense: str | None = None
    activation: str | None = None
    norm: str | None = None
    head: str | None = None
    bias: str | None = None

    def fields(self) -> dict[str, object]:
        """The fields of a Config that a post-norm model has for it."""
        return {
            "transform": self.dense is not None,
            "transform_activation": self.activation,
            "final_norm": self.norm is not None,
        }

    def pieces(self, c: Config, d_vocab: int) -> Iterator[Piece]:
        """Its tensors, those of the map to outputs left out where that is no table of tokens."""
        if self.dense is not None:
            yield from linear(self.dense, (c.d_model, c.d_model), "transform")
        if self.norm is not None:
            yield from layer_norm(self.norm, c.d_model, "final")
        if self.bias is not None:
            yield Piece(self.bias, (d_vocab,), {"b_U": lambda raw: raw})


BARE = Ending()
"""The final stream, where no unembedding is wanted."""


def ending(keys: Keys, options: Options, known: Mapping[str, Ending]) -> Ending:
    """The ending that ``architectures`` names; the head over the vocabulary where it names none.

    Raises LoadError for a class that the family has no ending for.
    """
    if options.no_unembedding:
        return BARE
    told = keys.get("architectures") or ["ForMaskedLM"]
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise keys.error(f"'architectures' must be a list of names, found {told!r:.80}")
    found = next((kind for suffix, kind in _BY_CLASS.items() if told[0].endswith(suffix)), None)
    if found is None or found not in known:
        classes = ", ".join(suffix for suffix, kind in _BY_CLASS.items() if kind in known)
        raise keys.error(f"'architectures' is {told!r:.80}, whose head is not known here; known: …{classes}")
    return known[found]
