"""Commands about one run of a model."""

from __future__ import annotations

from dataclasses import replace

from ..circuits.attribution.attribution import RUN_UNITS, UNITS, attribution
from ..circuits.attribution.beside import METHODS
from ..circuits.attribution.contrast_summary import contrast_summary
from ..circuits.attribution.decompose import decompose
from ..circuits.attribution.flow import flow
from ..circuits.attribution.lens import lens
from ..circuits.attribution.position_flow import position_flow
from ..circuits.cases.zero_point import ZEROS
from ..circuits.heads.attention import attention
from ..circuits.heads.entropy import entropy
from ..circuits.heads.rebase import rebase
from ..circuits.heads.swap import swap
from ..circuits.interventions.causal_tracing import SITES, causal_tracing
from ..circuits.interventions.cuts import edge
from ..circuits.interventions.intervene import intervene
from ..circuits.subspaces.equivariance import equivariance
from ..expansion.run_tree import tree
from ..expansion.scores.score import score
from ..expansion.scores.term import KINDS
from ..expansion.summary import summary
from ..graph import SPLITS
from .command import QUERY, SEED, Command, Option, fraction, ids, integer, positive, whole, words
from .inputs import MEASURE

MLP = Option(
    "mlp", "whether paths pass through MLPs, start at them, or pass through single neurons", choices=("gate", "source", "neurons")
)  # fmt: skip
NODES = Option("nodes", "how many nodes of the tree to open (200)", whole(1), metavar="N")
CIRCUITS = ("OV", "QK")
BESIDE = Option(
    "beside", f"of a contrast by head or component, other methods beside the largest shares: any of {', '.join(METHODS)}",
    words, metavar="METHODS",
)  # fmt: skip
HEAD = Option("head", "the head, such as L1H3", default="L0H0")

COMMANDS = (
    Command(
        "expand", summary, "one run",
        "expand a run of a model into path terms that add up to its prediction",
        "pathexp expand attn-2l 'To be, or not to be' --query 'E .* L1H1 U'",
        takes="target", top="k", long=True,
        options=(
            QUERY, MLP, NODES,
            Option("prove", "search for the largest of very many paths, until it is proven", flag=True),
            Option("check", "check the list and its proof by code that shares only the graph with the search", flag=True),
        ),
    ),
    Command(
        "tree", tree, "one run",
        "show a prediction as a tree of exact sums over bundles of paths",
        "pathexp tree attn-2l 'To be, or not to be' --nodes 20",
        takes="target", long=True, contrasts=True,
        options=(
            QUERY, MLP, replace(NODES, help="how many nodes of the tree to open (100, unless another limit is given)"),
            Option("share", "open until the finished paths explain this share", fraction, metavar="S"),
            Option("direction", "by endings (back) or by beginnings (forward)", choices=("back", "forward")),
            Option("positions", "also split the branches that are shown by source position", flag=True),
        ),
    ),
    Command(
        "attribution", attribution, "one run",
        "attribute a logit to components, heads, layers, paths or source tokens",
        "pathexp attribution attn-2l 'To be, or not to be' --by layer",
        takes="target", contrasts=True, options=(
            Option("by", f"the units that add up; of one run {', '.join(RUN_UNITS)}, of a contrast all", choices=UNITS),
            BESIDE,
        ),
    ),
    Command(
        "contrast", contrast_summary, "one run",
        "say why two texts, or two models, get different predictions, through values, keys and queries",
        "pathexp contrast attn-2l 'Macbeth shall sleep no more. Macbeth shall' 'Macbeth doth sleep no more. Macbeth shall'",
        takes="target", top="k", long=True,
        options=(
            Option("other", "the text to compare with, of as many tokens", positional=True),
            Option("other_tokens", "token ids instead of the other text, such as 3,14,15", ids, keyword="other"),
            Option("against", "run the text (or the other text) on this model of the same shape", metavar="OTHER_MODEL",
                   loads=True),
            Option("split", "how products are divided between the runs (midpoint)", choices=tuple(SPLITS)),
            MEASURE, BESIDE, NODES,
        ),
    ),
    Command(
        "decompose", decompose, "one run",
        "take the residual stream apart into what each component wrote",
        "pathexp decompose attn-2l 'To be, or not to be' --point L0.out",
        takes="run", options=(Option("point", "the depth to show, such as L0.out"),),
    ),
    Command(
        "lens", lens, "one run",
        "read a run at every depth: the logit lens in two modes, and what each component adds",
        "pathexp lens attn-2l 'To be, or not to be'",
        takes="target", options=(Option("mid", "also the states between attention and MLP", flag=True),),
    ),
    Command(
        "position-flow", position_flow, "one run",
        "follow a logit from position to position through the blocks",
        "pathexp position-flow attn-2l 'To be, or not to be'",
        takes="target",
    ),
    Command(
        "intervene", intervene, "one run",
        "cut paths, replace them by a mean, or patch them from another text: frozen and live side by side",
        "pathexp intervene attn-2l --edge 'L0H2 L1H0.K'",
        takes="target", contrasts=True, options=(
            Option("cut", "all paths that match a query, such as 'E L0H1 U'", metavar="QUERY"),
            Option("node", "all paths through a component or from a source", metavar="LABEL"),
            Option("edge", "all paths along an edge 'WRITER READER'; a reader may be U, or a port: L1H0.Q, .K, .V",
                   edge, metavar="EDGE"),
            Option("patch_from", "the paths carry this text, as long as the first", metavar="TEXT"),
            Option("zero", "what stands in place of the paths; corrupted needs --cases", choices=ZEROS),
            Option("means", "the mean is over windows of this text file", metavar="FILE"),
            Option("inputs", "what reads along the paths: q, k, v of heads, m of MLPs"),
            Option("live", "each component in turn: how many of them live (up to 48, the largest effects; with --cases all)", whole(0),
                   metavar="N"),
        ),
    ),
    Command(
        "flow", flow, "one run",
        "show how much of a logit passes along every edge",
        "pathexp flow attn-2l 'To be, or not to be' --query 'E .* L1H3 U'",
        takes="target", contrasts=True, graph=True, options=(
            QUERY, MLP,
            Option("per_position", "one node per component and position", flag=True),
            Option("share", "prune to the strongest edges whose paths add this share of the target", fraction, metavar="S"),
        ),
    ),
    Command(
        "equivariance", equivariance, "one run", "permute a text and see whether the logits are permuted alike",
        "pathexp equivariance attn-2l 'To be, or not to be'",
        takes="run", options=(SEED,),
    ),
    Command(
        "score", score, "one run",
        "expand one attention score into pairs of paths",
        "pathexp score attn-2l --head L1H0 --query 15 --key 6",
        takes="run", top="k", options=(
            HEAD,
            Option("query", "the position that attends (the last)", integer, metavar="POSITION"),
            Option("key", "the position attended to (the most attended)", integer, metavar="POSITION"),
            Option("kind", "only terms of one kind", choices=KINDS),
            Option("query_paths", "only query paths that match, such as 'E .* Q'", metavar="QUERY"),
            Option("key_paths", "only key paths that match, such as 'S .* L0H1 K'", metavar="QUERY"),
            Option("nodes", "also show the query paths and the key paths as trees of so many nodes", whole(1), metavar="N"),
        ),
    ),
    Command(
        "entropy", entropy, "one run",
        "measure the entropy of every head's attention",
        "pathexp entropy attn-2l 'To be, or not to be'",
        takes="run",
    ),
    Command(
        "attention", attention, "one run",
        "show where one head attends, and what it writes from each token",
        "pathexp attention attn-2l --head L1H3",
        takes="target", options=(
            HEAD,
            Option("query", "the position that attends (that of the target)", integer, metavar="POSITION"),
            Option("k", "how many outputs are named for each token (3)", whole(0), metavar="K"),
        ),
    ),
    Command(
        "causal-tracing", causal_tracing, "one run",
        "corrupt the embedding, restore one clean state at a time, and see what comes back",
        "pathexp causal-tracing attn-2l --site attention",
        takes="target", options=(
            Option("site", "which states are restored (stream)", choices=SITES),
            Option("positions", "where the embedding is corrupted, such as 3,4 (all but the target's)", ids, metavar="POSITIONS"),
            Option("noise", "the standard deviation of the noise (three times that of the embeddings)", positive, metavar="S"),
            Option("draws", "how many draws of noise (4)", whole(1), metavar="N"), SEED,
        ),
    ),
    Command(
        "swap", swap, "one run",
        "exchange what two heads write (OV) or where they attend (QK), and run",
        "pathexp swap attn-2l --head L1H3 --other L0H2 --circuit QK",
        takes="run", top="k", drawn=False, options=(
            Option("head", "a head, such as L1H3", required=True), Option("other", "another head", required=True),
            Option("circuit", "what is exchanged (OV)", choices=CIRCUITS),
        ),
    ),
    Command(
        "rebase", rebase, "one run",
        "change the basis of a head's queries, keys and values: they change, and nothing else does",
        "pathexp rebase attn-2l --head L1H3",
        takes="run", drawn=False, options=(
            Option("head", "the head, such as L1H3", required=True),
            Option("circuit", "only values (OV), or only queries and keys (QK)", choices=CIRCUITS), SEED,
        ),
    ),
)  # fmt: skip
