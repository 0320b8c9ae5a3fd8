"""What to do about Python pickles, which can run code when they are read."""

from __future__ import annotations


def of_pickles(name: str) -> str:
    """Return why a pickle is refused, and the three ways on: who reads it, and what is loaded then.

    >>> print(of_pickles("model.pt"))
    a torch file is a Python pickle, which can run code when it is read, and is refused. Read it with torch:
      state = torch.load('model.pt', weights_only=True)
      px.load(state, config=...)  # the configuration of transformers or TransformerLens; other names: names=
    """
    return (
        "a torch file is a Python pickle, which can run code when it is read, and is refused. Read it with torch:\n"
        f"  state = torch.load({name!r}, weights_only=True)\n"
        "  px.load(state, config=...)  # the configuration of transformers or TransformerLens; other names: names="
    )
