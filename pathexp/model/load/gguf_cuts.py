"""How byte-pair vocabularies of GGUF cut a text before merging, by ``tokenizer.ggml.pre``.

The patterns are those that the tokenizers were published with, as llama.cpp has them (ggml-org/llama.cpp,
src/llama-vocab.cpp): one after another, each cuts what the ones before left into matches and what is between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_DIGIT, _THREE = r"\p{N}", r"\p{N}{1,3}"
_SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LETTERS, _SPACES = r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\s+(?!\S)|\s+"
_LINES = r"\s*[\r\n]+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_CAPITAL, _SMALL = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_CAMEL = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}*{_SMALL}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}+{_SMALL}*"
_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_CLAUSES = r" ?[^(\s|.,!?…。，、।۔،)]+"
_HAN = "[一-龥぀-ゟ゠-ヿ]+"
_PLAIN = r"[\p{P}\$\+<=>\^~\|]+"


def _words(digits: str) -> str:
    return "|".join((_SHORT, _LETTERS, digits, _MARKS, _LINES, _SPACES))


def _camel(digits: str, ending: str = "") -> str:
    return "|".join((*(part + ending for part in _CAMEL), digits, _SLASHES, _LINES, _SPACES))


_SYMBOL = r"[\p{S}&&[^~]]"  # llama.cpp leaves one out
_OF_DEEPSEEK = "|".join(
    (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+",
        rf"[^\r\n\p{{L}}\p{{P}}{_SYMBOL}]?[\p{{L}}\p{{M}}]+",
        rf" ?[\p{{P}}{_SYMBOL}]+[\r\n]*",
        _LINES,
        _SPACES,
    )
)
_OF_QWEN35 = "|".join(
    (
        _SHORT,
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
        _DIGIT,
        r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
        _LINES,
        _SPACES,
    )
)
_OF_SEED = "|".join((_SHORT, _LETTERS, r"\p{N}", r" ?[^\s\p{L}\p{N}\r\n]+", _LINES, _SPACES))
_OF_BAILING = "|".join(
    (r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])", _LETTERS, _DIGIT, _MARKS, r"\s*[\r\n]", _SPACES)
)


@dataclass(frozen=True)
class Cuts:
    """The patterns; whether a word that is a token is taken whole; whether a begin token is put in front if not told."""

    patterns: tuple[str, ...]
    whole_words: bool = False
    begin: bool = False


_LLAMA3 = _words(_THREE)
_GROUPS: Mapping[Cuts, str] = {
    Cuts((_PLAIN, _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")): "default",
    Cuts((_GPT2,)): (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe a.x-4.0 mellum "
        "modern-bert mpt olmo jais exaone4 trillion granite-docling"
    ),
    Cuts((_DIGIT, _GPT2)): "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    Cuts((_LLAMA3,), whole_words=True, begin=True): (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"
    ),
    Cuts((_LLAMA3,)): "dbrx smaug-bpe chatglm-bpe glm4",
    Cuts((_words(_DIGIT),)): (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2"
    ),
    Cuts((_OF_QWEN35,)): "qwen35",
    Cuts((_camel(_DIGIT),), whole_words=True, begin=True): "tekken",
    Cuts((_camel(_THREE, f"{_SHORT}?"),)): "gpt-4o llama4 kanana2 talkie minimax-m2",
    Cuts((_THREE, _HAN, _OF_DEEPSEEK)): "deepseek-v3 hunyuan-dense joyai-llm",
    Cuts((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[[一-龥ࠀ-一가-\x{D7FF}]&&\S]+", _DIGIT)): "deepseek-coder",
    Cuts((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")): "falcon",
    Cuts((_CLAUSES,)): "bloom poro-chat gpt3-finnish",
    Cuts((_CLAUSES, _DIGIT)): "viking",
    Cuts((_OF_SEED,)): "seed-coder",
    Cuts((_OF_BAILING,)): "bailingmoe bailingmoe2 llada-moe",
    Cuts((r"\p{N}+", r"(?=(\d{3})+(?!\d))")): "superbpe",
}


def _by_name() -> Iterator[tuple[str, Cuts]]:
    for cuts, names in _GROUPS.items():
        yield from ((name, cuts) for name in names.split())


CUTS: Mapping[str, Cuts] = dict(_by_name())
"""The cuts by name; names that share them are one group of models."""
