"""Commands about one run of a model."""

from __future__ import annotations

from ..circuits.attribution.attribution import UNITS, attribution
from ..circuits.attribution.decompose import decompose
from ..circuits.attribution.flow import flow
from ..circuits.attribution.lens import lens
from ..circuits.attribution.position_flow import position_flow
from ..circuits.subspaces.equivariance import equivariance
from ..expansion.expansion import tree
from ..expansion.summary import summary
from .command import QUERY, SEED, Command, Option, fraction, whole

MLP = Option("mlp", "whether paths pass through MLPs or start at them", choices=("gate", "source"))
NODES = Option("nodes", "how many nodes of the tree to open (200)", whole(1), metavar="N")

COMMANDS = (
    Command(
        "expand", summary, "one run",
        "expand a run of a model into path terms that add up to its prediction",
        "pathexp expand attn-2l 'To be, or not to be' --query 'E .* L1H1 U'",
        takes="target", top="k", long=True,
        options=(
            QUERY, MLP, NODES,
            Option("prove", "search for the largest of very many paths, until it is proven", flag=True),
        ),
    ),
    Command(
        "tree", tree, "one run",
        "show a prediction as a tree of exact sums over bundles of paths",
        "pathexp tree attn-2l 'To be, or not to be' --nodes 20",
        takes="target", long=True,
        options=(
            QUERY, NODES, Option("share", "open until the finished paths explain this share", fraction, metavar="S"),
            Option("direction", "by endings (back) or by beginnings (forward)", choices=("back", "forward")),
        ),
    ),
    Command(
        "attribution", attribution, "one run",
        "attribute a logit to components, heads, layers, paths or source tokens",
        "pathexp attribution attn-2l 'To be, or not to be' --by layer",
        takes="target", options=(Option("by", "the units that add up", choices=UNITS),),
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
        "flow", flow, "one run",
        "show how much of a logit passes along every edge",
        "pathexp flow attn-2l 'To be, or not to be' --query 'E .* L1H3 U'",
        takes="target", graph=True, options=(
            QUERY,
            Option("per_position", "one node per component and position", flag=True),
            Option("share", "prune to the strongest edges whose paths add this share of the target", fraction, metavar="S"),
        ),
    ),
    Command(
        "equivariance", equivariance, "one run", "permute a text and see whether the logits are permuted alike",
        "pathexp equivariance attn-2l 'To be, or not to be'",
        takes="run", options=(SEED,),
    ),
)  # fmt: skip
