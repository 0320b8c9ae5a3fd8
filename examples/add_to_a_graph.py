"""Adding to a frozen model: a steering vector, a feature, a low-rank update, and what their paths do.

python examples/add_to_a_graph.py
"""

import numpy as np

import pathexp as px
from pathexp.expansion import compare

model = px.load("attn-2l")
trace = model.run("Macbeth shall sleep no more. Macbeth shall")
target = trace.logit(" sleep")
weights = model.weights

king = weights.W_E[:, model.token_id(" king")]
steered = px.expand(px.freeze(trace).with_source("steer", king))
print(f"steering by ' king': {steered.value(target) - target.value:+.3f} on the logit of ' sleep', through")
for term, value in zip((own := steered.where("steer .* U").top(3, target)).terms, own.values, strict=True):
    print(f"  {value:+.3f}  {term.path}")

rng = np.random.default_rng(0)
B, A = 0.1 * rng.normal(size=(128, 2)), 0.1 * rng.normal(size=(2, 128))
tuned = px.expand(px.freeze(trace).with_component("lora", weight=(B, A), pattern="L1H0", beside="L1H0"))
print(f"a rank-2 update beside L1H0: {tuned.where('S .* lora U').value(target):+.3f}")

# The update's paths are all that is new: without them the sum is the model's forward pass.
rest = tuned.where("~(S .* lora .* U)").logits()
verdict = compare(rest, trace.logits, px.expand(trace).verify().tolerance, "all paths but the update's")
print(f"\n{verdict}")
assert verdict.ok
