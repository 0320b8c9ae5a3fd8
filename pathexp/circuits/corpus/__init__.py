"""What is averaged over a corpus: its windows, the limits of a long count, running sums, and questions of corpora."""

from .corpus import Source as Corpus
from .corpus import windows
from .tally import Tokens

__all__ = ["Corpus", "Tokens", "windows"]
