"""Transformers in plain numpy: sizes, weights, and the reference forward pass."""

from . import rewrite
from .bundled import ModelCard, load_bundled, models
from .config import Config
from .door import load
from .handmade import induction_model, random_model, zero_layer_bigram
from .latent import Latent
from .load.transformer_lens import from_transformer_lens
from .model import Model
from .npz import load_npz, save_npz
from .positions import distances, sinusoids, slopes
from .rotary import Divided, Dynamic, Linear, Llama3, LongRope, Rotary, Yarn
from .routing import Experts
from .target import Target
from .tokenizer import Tokenizer
from .trace import Trace
from .weights import Weights

__all__ = [
    "Config",
    "Divided",
    "Dynamic",
    "Experts",
    "Latent",
    "Linear",
    "Llama3",
    "LongRope",
    "Model",
    "ModelCard",
    "Rotary",
    "Target",
    "Tokenizer",
    "Trace",
    "Weights",
    "Yarn",
    "distances",
    "from_transformer_lens",
    "induction_model",
    "load",
    "load_bundled",
    "load_npz",
    "models",
    "random_model",
    "rewrite",
    "save_npz",
    "sinusoids",
    "slopes",
    "zero_layer_bigram",
]
