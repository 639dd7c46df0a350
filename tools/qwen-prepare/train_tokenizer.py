#!/usr/bin/env python3
"""Trains a small byte-level BPE tokenizer on text files.

The tokenizer works as Qwen's does (NFC, the same rule for cutting text into
words, byte-level BPE, control tokens behind the vocabulary), with a vocabulary
as small as a tiny model wants. The same text and options give the same bytes.

    train_tokenizer.py --vocab-size 4096 -o DIR FILE...
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

# Contractions; a run of letters and marks with at most one other character
# before it; one digit; punctuation with an optional space before it; line
# ends; trailing and other white space.
WORD_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Single tokens, but part of what a model writes: not control tokens.
TAG_TOKENS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
BYTES = 256
SMALLEST_VOCAB = BYTES + len(CONTROL_TOKENS) + len(TAG_TOKENS)


def train(texts, vocab_size: int) -> Tokenizer:
    """A tokenizer of at most `vocab_size` ids, trained on strings."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    added = len(CONTROL_TOKENS) + len(TAG_TOKENS)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - added,
        # Every byte has an id, so that any text can be encoded.
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=sys.stderr.isatty(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(CONTROL_TOKENS))
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False) for token in TAG_TOKENS]
    )
    return tokenizer


def config() -> dict:
    """tokenizer_config.json, so that transformers loads the folder too."""
    return {
        "add_prefix_space": False,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def save(tokenizer: Tokenizer, folder: Path, chat_template=None):
    """Writes the folder that `qwen-prepare --tokenizer` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    text = json.dumps(config(), indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    if chat_template is not None:
        shutil.copyfile(chat_template, folder / "chat_template.jinja")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Trains a byte-level BPE tokenizer on UTF-8 text files."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--vocab-size", type=int, default=4096, metavar="N")
    parser.add_argument("--chat-template", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.vocab_size < SMALLEST_VOCAB:
        print(
            f"train_tokenizer: error: --vocab-size: expected at least "
            f"{SMALLEST_VOCAB} (all bytes and the added tokens), found "
            f"{arguments.vocab_size}",
            file=sys.stderr,
        )
        return 1
    try:
        texts = [file.read_text(encoding="utf-8") for file in arguments.files]
        tokenizer = train(texts, arguments.vocab_size)
        save(tokenizer, arguments.output, arguments.chat_template)
    except (OSError, UnicodeDecodeError) as error:
        print(f"train_tokenizer: error: {error}", file=sys.stderr)
        return 1
    size = tokenizer.get_vocab_size()
    print(f"{arguments.output}: {size} tokens")
    if size < arguments.vocab_size:
        print(f"note: the text has no more pairs to merge than {size} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
