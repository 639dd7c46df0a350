"""The command line of qwen-prepare."""

import argparse
import json
import os
import sys
from pathlib import Path

import command_line
from tqdm import tqdm

from .documents import Options, Preparer
from .errors import PrepareError
from .forms import FORMS
from .show import show_document
from .sources import TextOptions, open_source
from .token_file import TokenFile
from .tokenizer import ChatTokenizer


class _Parser(command_line.Parser):
    """Reports a wrong option as every other error."""

    def error(self, message):
        raise PrepareError(self.explain(message))


_fraction = command_line.value(
    float, lambda x: 0 < x < 1, "a number between 0 and 1"
)


def _assignment(text: str) -> tuple:
    """NAME=VALUE; the value is JSON, or text where it is not JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="qwen-prepare",
        description="Turns chats or plain text into a token file for qwenrun.",
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        type=Path,
        metavar="INPUT",
        help=".jsonl, .json, .txt, or the folder of a saved data set",
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        type=Path,
        metavar="DIR",
        help="folder with tokenizer.json, tokenizer_config.json and, for "
        "chats, a chat template",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="token file to write"
    )
    parser.add_argument(
        "--show",
        type=command_line.whole(),
        metavar="N",
        help="print N documents, the supervised text marked; without "
        "--output nothing else is done",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar, no summary"
    )
    _add_form_options(parser.add_argument_group("input"))
    _add_token_options(parser.add_argument_group("tokens and masks"))
    _add_eval_options(parser.add_argument_group("evaluation data"))
    return parser


def _add_form_options(group):
    group.add_argument(
        "--form",
        choices=FORMS,
        help="form of the rows, where their fields fit several",
    )
    group.add_argument(
        "--text-field",
        default="text",
        metavar="NAME",
        help="field of plain text (default: text)",
    )
    group.add_argument(
        "--split", metavar="NAME", help="split of a saved data set with splits"
    )
    txt = group.add_mutually_exclusive_group()
    txt.add_argument(
        "--txt-documents",
        choices=("paragraph", "line", "file"),
        help="what is a document in a .txt file (default: paragraph, that is "
        "text between blank lines)",
    )
    txt.add_argument(
        "--txt-separator",
        metavar="TEXT",
        help="documents in a .txt file are separated by TEXT",
    )


def _add_token_options(group):
    group.add_argument(
        "--mask",
        choices=("assistant", "all"),
        help="what is supervised (default: assistant for chats, all for text)",
    )
    group.add_argument(
        "--max-tokens",
        type=command_line.whole(),
        metavar="N",
        help="longest document",
    )
    group.add_argument(
        "--overlong",
        choices=("drop", "truncate", "split"),
        help="what happens to longer documents (default: drop); split is for "
        "plain text only",
    )
    group.add_argument(
        "--append-eos",
        action="store_true",
        help="end each plain-text document with the --eos-token",
    )
    group.add_argument(
        "--eos-token",
        metavar="TOKEN",
        help="default: <|endoftext|>, else the tokenizer's eos_token",
    )
    group.add_argument(
        "--control-tokens",
        choices=("text", "token", "error"),
        default="text",
        help="control tokens within the data's own text: encode them as text "
        "(default), as the token, or stop",
    )
    group.add_argument(
        "--chat-template",
        type=Path,
        metavar="FILE",
        help="jinja template to use in place of the tokenizer's",
    )
    group.add_argument(
        "--template-arg",
        action="append",
        default=[],
        type=_assignment,
        metavar="NAME=VALUE",
        help="variable for the chat template, e.g. enable_thinking=false",
    )


def _add_eval_options(group):
    group.add_argument(
        "--eval-output", type=Path, metavar="FILE", help="second token file"
    )
    group.add_argument(
        "--eval-fraction",
        type=_fraction,
        metavar="F",
        help="share of the documents that go to --eval-output, chosen by a "
        "hash of their tokens",
    )
    group.add_argument(
        "--eval-seed",
        type=command_line.whole(least=0),
        metavar="N",
        help="choose others (default: 0)",
    )


def _check(arguments):
    """What argparse cannot say about options that belong together."""
    _check_outputs(arguments)
    _check_inputs(arguments)
    _check_paths(arguments)


def _check_outputs(arguments):
    if arguments.output is None and arguments.show is None:
        raise PrepareError("expected --output FILE or --show N")
    if (arguments.eval_output is None) != (arguments.eval_fraction is None):
        raise PrepareError("--eval-output and --eval-fraction go together")
    if arguments.eval_output is not None and arguments.output is None:
        raise PrepareError("--eval-output needs --output")
    if arguments.eval_seed is not None and arguments.eval_output is None:
        raise PrepareError("--eval-seed needs --eval-output")
    if arguments.overlong is not None and arguments.max_tokens is None:
        raise PrepareError("--overlong needs --max-tokens")
    if arguments.eos_token is not None and not arguments.append_eos:
        raise PrepareError("--eos-token needs --append-eos")


def _check_inputs(arguments):
    """No option is for a kind of input that there is none of."""
    if arguments.txt_separator == "":
        raise PrepareError("--txt-separator: expected some text")
    is_text = [path.suffix.lower() == ".txt" for path in arguments.inputs]
    for_text = arguments.txt_documents or arguments.txt_separator
    if for_text and not any(is_text):
        raise PrepareError(
            "--txt-documents and --txt-separator are for .txt files, and no "
            "input is one"
        )
    if (arguments.chat_template or arguments.template_arg) and all(is_text):
        raise PrepareError(
            "--chat-template and --template-arg are for chats, and every "
            "input is a .txt file"
        )
    if arguments.split and all(path.is_file() for path in arguments.inputs):
        raise PrepareError(
            "--split is for a saved data set, and every input is a file"
        )


def _check_paths(arguments):
    """No file is read and written, or written twice."""
    outputs = [p for p in (arguments.output, arguments.eval_output) if p]
    taken = {path.resolve() for path in arguments.inputs}
    if arguments.chat_template:
        taken.add(arguments.chat_template.resolve())
    if arguments.tokenizer.is_dir():
        taken.update(path.resolve() for path in arguments.tokenizer.iterdir())
    for path in outputs:
        if path.resolve() in taken:
            raise PrepareError(f"{path}: is named twice, and is an output")
        taken.add(path.resolve())


def _rows(sources, quiet: bool):
    """The rows of all sources, with a progress bar for each."""
    for source in sources:
        with tqdm(
            total=source.total,
            unit=source.unit,
            unit_scale=True,
            desc=getattr(source, "path", getattr(source, "folder", None)).name,
            # None: no bar where standard error is not a terminal.
            disable=True if quiet else None,
        ) as bar:
            for row in source.rows():
                if bar.total != source.total:
                    bar.total = source.total
                bar.update(row.done - bar.n)
                yield row


def _choose_eval(documents: list, fraction: float, seed: int) -> list:
    """Which documents are for evaluation, one flag each.

    The smallest hashes are taken, so the choice neither depends on the order
    of the input nor on the other documents. Equal documents stay together,
    or else the model would be evaluated on what it was trained on.
    """
    digests = [document.digest(seed) for document in documents]
    wanted = max(1, round(fraction * len(documents)))
    bound = sorted(digests)[wanted - 1] if documents else b""
    return [digest <= bound for digest in digests]


def _print_counts(counts, options: Options):
    """One line for each thing that happened to rows, where it happened."""
    limit = options.max_tokens
    if counts.empty:
        print(f"warning: empty documents dropped: {counts.empty}")
    if counts.unsupervised:
        print(
            "warning: documents without a supervised token dropped: "
            f"{counts.unsupervised} ({counts.unsupervised_tokens} tokens)"
        )
    if counts.with_literals:
        kind = "text" if options.control_tokens == "text" else "tokens"
        print(
            "warning: rows with control tokens in their own text: "
            f"{counts.with_literals}, encoded as {kind}; the first is "
            f"{counts.first_with_literals}"
        )
    if counts.weights_ignored:
        print(
            "warning: chats with loss weights 0, which --mask all ignores: "
            f"{counts.weights_ignored}"
        )
    if counts.overlong:
        print(
            f"documents longer than {limit} tokens dropped: "
            f"{counts.overlong} ({counts.overlong_tokens} tokens)"
        )
    if counts.truncated:
        print(
            f"documents truncated to {limit} tokens: {counts.truncated} "
            f"({counts.truncated_tokens} tokens cut off)"
        )
    if counts.split:
        print(
            f"documents split into pieces of at most {limit} tokens: "
            f"{counts.split}"
        )


def _print_file(file: TokenFile):
    share = 100 * file.supervised_tokens / file.tokens
    print(
        f"{file.path}: {len(file.documents)} documents, {file.tokens} tokens, "
        f"{file.supervised_tokens} supervised ({share:.1f} %), longest "
        f"document {file.max_document_tokens}"
    )


def _make_preparer(arguments) -> Preparer:
    tokenizer = ChatTokenizer(arguments.tokenizer)
    end = None
    if arguments.append_eos:
        end = arguments.eos_token or tokenizer.default_document_end()
    options = Options(
        form=arguments.form,
        text_field=arguments.text_field,
        mask=arguments.mask,
        max_tokens=arguments.max_tokens,
        overlong=arguments.overlong or "drop",
        control_tokens=arguments.control_tokens,
        append_eos=end,
    )

    def load_template():
        return tokenizer.chat_template(
            arguments.chat_template, dict(arguments.template_arg)
        )

    if arguments.chat_template:
        # A fault in it is found before the first chat is.
        load_template()
    return Preparer(tokenizer, options, load_template)


def _prepare(arguments, files: list):
    preparer = _make_preparer(arguments)
    text = TextOptions(
        arguments.txt_documents or "paragraph",
        arguments.txt_separator,
        arguments.text_field,
    )
    sources = [
        open_source(path, arguments.text_field, arguments.split, text)
        for path in arguments.inputs
    ]
    for path in (arguments.output, arguments.eval_output):
        if path is not None:
            files.append(TokenFile(path))
    documents = []
    to_show = arguments.show or 0
    for document in preparer.documents(_rows(sources, arguments.quiet)):
        if to_show:
            print(
                show_document(
                    document, preparer.tokenizer, sys.stdout.isatty()
                )
            )
            to_show -= 1
        if files:
            documents.append(document)
        elif not to_show:
            return
    _write(arguments, files, documents, preparer)


def _write(arguments, files: list, documents: list, preparer: Preparer):
    if not arguments.quiet:
        _print_counts(preparer.counts, preparer.options)
    if len(files) == 2:
        for document, held_out in zip(
            documents,
            _choose_eval(
                documents, arguments.eval_fraction, arguments.eval_seed or 0
            ),
        ):
            files[held_out].add(document)
    elif files:
        for document in documents:
            files[0].add(document)
    for file in files:
        file.write(preparer.metadata())
    for file in files:
        file.publish()
        if not arguments.quiet:
            _print_file(file)


def main(argv=None) -> int:
    """Runs the tool; returns its exit status."""
    files: list = []
    try:
        arguments = _parser().parse_intermixed_args(argv)
        _check(arguments)
        _prepare(arguments, files)
        sys.stdout.flush()
        return 0
    except PrepareError as error:
        # A name or a value in the message may hold line feeds.
        text = " ".join(str(error).splitlines())
        print(f"qwen-prepare: error: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("qwen-prepare: interrupted, nothing written", file=sys.stderr)
        return command_line.status_of(stop)
    except BrokenPipeError:
        # The reader of --show has seen enough; keep Python from flushing
        # into the closed pipe once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # Files have messages of their own; this is the standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(
            "qwen-prepare: error: cannot write to the standard output: "
            f"{error.strerror}",
            file=sys.stderr,
        )
        return 1
    finally:
        for file in files:
            file.discard()
