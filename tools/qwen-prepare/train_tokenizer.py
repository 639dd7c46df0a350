#!/usr/bin/env python3
"""Trains a small byte-level BPE tokenizer on text files.

The tokenizer works as Qwen's does (NFC, the same rule for cutting text into
words, byte-level BPE, control tokens behind the vocabulary), with a vocabulary
as small as a tiny model wants. The same text and options give the same bytes.

    train_tokenizer.py --vocab-size 4096 -o DIR FILE...
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import command_line  # noqa: E402
from tokenizers import (  # noqa: E402
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
# The trainer takes memory for all of them at once.
LARGEST_VOCAB = 10**6


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


def write_whole(path: Path, data: bytes):
    """The file appears complete or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def save(tokenizer: Tokenizer, folder: Path, chat_template=None):
    """Writes the folder that `qwen-prepare --tokenizer` takes."""
    template = chat_template and chat_template.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config(), indent=2) + "\n"
    write_whole(folder / "tokenizer_config.json", text.encode())
    if template is not None:
        write_whole(folder / "chat_template.jinja", template)
    # Last: without it the folder is no tokenizer.
    write_whole(folder / "tokenizer.json", tokenizer.to_str(True).encode())


class Parser(command_line.Parser):
    """All errors of this tool end with status 1."""

    def error(self, message):
        message = self.explain(message)
        print(f"train_tokenizer: error: {message}", file=sys.stderr)
        sys.exit(1)


def parse_arguments():
    parser = Parser(
        description="Trains a byte-level BPE tokenizer on UTF-8 text files."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument(
        "--vocab-size",
        # All bytes and the added tokens have an id.
        type=command_line.whole(SMALLEST_VOCAB, LARGEST_VOCAB),
        default=4096,
        metavar="N",
    )
    parser.add_argument("--chat-template", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
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
