"""Deriving the terms of small models as symbols, with no weights anywhere.

python examples/derive_terms.py
"""

import numpy as np

import pathexp as px
from pathexp.expansion import compare

for layers in (0, 1, 2):
    terms = px.expand(px.ResidualGraph.attention_only(layers=layers, heads=2))
    print(f"{layers} layers, 2 heads: {terms.count()} terms")
    for term in terms:
        print("   ", term.formula)

term = px.expand(px.ResidualGraph.attention_only(layers=2, heads=2))["E L0H1 L1H0 U"]
print("\nsympy:", term.expr)
print("LaTeX:", term.latex())

# The same symbols with numbers put in add up to a real forward pass.
trace = px.random_model(layers=2, heads=2, d_vocab=7, d_model=6, positions="none").run([3, 1, 4])
terms = px.expand(trace)
matrix = px.evaluate(terms.expr(), terms.arrays())  # (n · d_vocab, n · d_vocab)
one_hot = np.eye(7)[trace.tokens].reshape(-1, 1)
verdict = compare(
    (matrix @ one_hot).reshape(3, 7), trace.logits, terms.verify().tolerance, "symbols with numbers put in"
)
print(f"\n{verdict}")
assert verdict.ok
