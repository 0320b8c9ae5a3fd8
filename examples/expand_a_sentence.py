"""Which paths of a trained model make its prediction?

python examples/expand_a_sentence.py
"""

import pathexp as px

model = px.load("attn-2l")
trace = model.run("Macbeth shall sleep no more. Macbeth shall")
terms = px.expand(trace)

target = trace.logit(trace.top_token())
print(terms.top(5, target))

print("\nof order 0, 1, 2:", [round(float(total[-1] @ target.direction), 3) for total in terms.by_order()])

induction = terms.where("E .* L1H0 U")
print(f"the {induction.count()} paths that end in L1H0 add {induction.value(target):+.3f}")

verdict = terms.verify()
print(f"\n{verdict}")
assert verdict.ok
