"""pathexp: path expansion of transformers."""
