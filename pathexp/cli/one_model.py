"""Commands about the weights of one model; some also measure on a corpus."""

from __future__ import annotations

from ..circuits.composition.composition import composition
from ..circuits.composition.virtual_weight import largest_entries
from ..circuits.heads.head import side_by_side
from ..circuits.heads.heads import heads
from ..circuits.heads.induction import induction
from ..circuits.small.skip_trigrams import skip_trigrams
from ..circuits.small.virtual_heads import virtual_heads
from ..circuits.subspaces.bottlenecks import bottlenecks
from ..circuits.subspaces.interference import interference
from ..circuits.subspaces.memory_management import memory_management
from ..circuits.subspaces.nearest_tokens import nearest_tokens
from ..circuits.subspaces.overlap import overlap
from ..circuits.subspaces.privileged_basis import privileged_basis
from ..circuits.subspaces.rewriting import STEPS, rewriting
from ..circuits.subspaces.rotate_basis import rotate_basis
from .command import CORPUS, NORMS, SEED, ZERO, Command, Option, ids, integer, token, whole

REPEATED = (
    Option(
        "length",
        "tokens per copy, one length or several (default: 50,33, or as many as fit)",
        ids,
        metavar="N,N",
    ),
    Option("runs", "how many texts (8)", whole(1), metavar="N"),
    Option("prefix", "token ids that go before, such as 1 or 1,5", ids, metavar="IDS"),
    SEED,
)
"""How random tokens are repeated."""

COMMANDS: tuple[Command, ...] = (
    Command(
        "head", side_by_side, "one model",
        "show heads side by side as two circuits: where they attend, what they write",
        "pathexp head attn-2l --head L1H3 --head L0H2",
        top="k", options=(
            Option("head", "a head, such as L1H3; several are shown side by side", many=True, required=True),
            Option("distance", "under rotary positions: how far the key is before the query", integer, metavar="N"),
        ),
    ),
    Command(
        "heads", heads, "one model",
        "show what every head attends to on repeated tokens, and whether it copies",
        "pathexp heads attn-2l --runs 4",
        long=True, states=True, options=(
            CORPUS, *REPEATED,
            Option("cases", "also the attention to the roles of these cases, a .jsonl or .csv file", metavar="FILE"),
        ),
    ),
    Command(
        "induction", induction, "one model",
        "find induction heads from the weights, confirm them on runs, explain their scores",
        "pathexp induction attn-2l --runs 4",
        long=True, states=True,
        options=(*REPEATED, Option("score_runs", "texts on which scores are expanded (2)", whole(0), metavar="N")),
    ),
    Command(
        "composition", composition, "one model",
        "score how much of what one component writes another reads",
        "pathexp composition attn-2l --path 'L0H2 L1H3 U'",
        options=(
            NORMS,
            Option("distance", "under rotary positions, how far the key stands before the query", integer, metavar="N"),
            Option("path", "also the composition along this path, such as 'L0H1 L1H2 U'"),
        ),
    ),
    Command(
        "virtual-weight", largest_entries, "one model",
        "show the virtual weight between any two components",
        "pathexp virtual-weight attn-2l --writer E --reader U --through L0H0",
        drawn=False,
        options=(
            Option("writer", "a writer: E, P, L0H1, L0H1.O, L0M, L0N17"),
            Option("reader", "a reader: U, L1H0, L1H0.Q, .K, .V, L1M, L1N17"),
            Option("through", "'direct', heads passed in order as 'L0H1 L1H2', or 'all'"),
            NORMS,
            Option("largest", "which entries count as large", choices=("abs", "positive", "negative")),
            Option("table", "write the whole table to this .npy file, in blocks", metavar="FILE"),
        ),
        top="k",
    ),
    Command(
        "skip-trigrams", skip_trigrams, "one model",
        "read skip-trigrams off a one-layer model, and show the bugs they force",
        "pathexp skip-trigrams attn-1l --head L0H3",
        model="attn-1l", top="k", states=True,
        options=(
            Option("head", "only one head, such as L0H3"),
            Option("source", "only one source: a token, or an id as #17", token, metavar="TOKEN"),
            Option("bugs", "how many bugs to measure (default: 3)", whole(0), metavar="K"),
            Option("contexts", "random contexts in which each is measured (default: 64)", whole(2), metavar="N"),
        ),
    ),
    Command(
        "virtual-heads", virtual_heads, "one model",
        "list virtual heads, and with a corpus how much they reduce its loss",
        "pathexp virtual-heads attn-2l --corpus book.txt --windows 20",
        top="k", states=True, windows=20,
        options=(CORPUS, ZERO, Option("order", "heads in a row (default: 2)", whole(2), metavar="K")),
    ),
    Command(
        "overlap", overlap, "one model",
        "principal angles between what writers write and readers read, versus a random baseline",
        "pathexp overlap attn-2l --writer L0H2 --reader L1H0.K",
        options=(
            Option("writer", "only the pairs of this writer, such as L0H2"),
            Option("reader", "only the pairs of this reader, such as L1H0.K"),
            NORMS,
        ),
    ),
    Command(
        "interference", interference, "one model",
        "cosines between the directions of a component, versus random ones",
        "pathexp interference attn-2l --label U",
        options=(Option("label", "E, P, U, L0M, L0M.in, L0H1.O or its .Q, .K, .V"), NORMS),
        top="k",
    ),
    Command(
        "bottlenecks", bottlenecks, "one model",
        "how many dimensions are written before each depth and read after it",
        "pathexp bottlenecks attn-2l --corpus FILE --length 64",
        options=(CORPUS,), states=True, windows=20,
    ),
    Command(
        "memory-management", memory_management, "one model",
        "heads and neurons that erase earlier outputs, confirmed on a corpus",
        "pathexp memory-management attn-2l --corpus FILE --length 64",
        options=(CORPUS,), top="k", states=True, windows=20,
    ),
    Command(
        "privileged-basis", privileged_basis, "one model",
        "which spaces have a privileged basis, by the weights and on a corpus",
        "pathexp privileged-basis attn-2l --corpus FILE --length 64",
        options=(SEED, CORPUS), states=True, windows=20,
    ),
    Command(
        "nearest-tokens", nearest_tokens, "one model",
        "the nearest tokens of a token, in the embedding and in the unembedding",
        "pathexp nearest-tokens attn-2l --token ' king'",
        top="k", options=(Option("token", "a token, or an id as #17", token, required=True, metavar="TOKEN"),),
    ),
    Command(
        "rewrite", rewriting, "one model",
        "rewrite a model without changing what it computes, proven, and write it to a file",
        "pathexp rewrite attn-2l --step rotate --out rotated.npz",
        options=(
            Option("step", "what to do, in this order (fold-norms)", choices=STEPS, many=True, default=None),
            Option("out", "write the new model to this .npz file", metavar="FILE"), SEED,
        ),
    ),
    Command(
        "rotate-basis", rotate_basis, "one model",
        "rotate the stream's basis: coordinates change, virtual weights and outputs do not",
        "pathexp rotate-basis attn-2l --top 5",
        options=(SEED,), top="k",
    ),
)  # fmt: skip
