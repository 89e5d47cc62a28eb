"""llama.cpp's HTTP server as a program of its own: ``python -m specdec.rehearsal.engines.llamacpp_server``.

Prints ``listening on <address>`` when the model is loaded, then serves until it is ended.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

MATCHED_TOKENS = 3
"""Length of the run of tokens that is looked up: the last so many must have occurred before."""


def matched_tokens(window: int) -> int:
    """Length of the run that is looked up for a window: llama.cpp proposes nothing where the window is
    shorter than the run.
    """
    return min(MATCHED_TOKENS, window)


def _library() -> Any:
    # A compiled extension without type information.
    return importlib.import_module("xllamacpp")


def parameters(arguments: argparse.Namespace) -> Any:
    """The server's settings.

    Both variants differ in the speculation fields and in nothing else. Keys and values are cached as 32-bit
    floats without the fused attention kernel: 16-bit rounding lets the text of a batch of proposals drift
    from that of single steps.
    """
    xllamacpp = _library()
    given = xllamacpp.CommonParams()
    given.model.path = arguments.model
    given.model_alias = {arguments.alias}
    given.hostnames = ["127.0.0.1"]
    given.port = arguments.port
    given.n_ctx = arguments.context
    given.n_parallel = 1
    given.cpuparams.n_threads = arguments.threads
    given.cpuparams_batch.n_threads = arguments.threads
    given.n_threads_http = 2
    given.cache_type_k = given.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    given.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    # A cached prompt would make the time to the first token of a repeat another quantity than that of the
    # first time.
    given.cache_prompt = False
    given.cache_ram_mib = 0
    given.endpoint_metrics = True
    given.endpoint_slots = False
    given.ui = False
    given.verbosity = 1
    if arguments.window:
        kinds = xllamacpp.common_speculative_type
        given.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        given.speculative.ngram_simple.size_n = matched_tokens(arguments.window)
        given.speculative.ngram_simple.size_m = arguments.window
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until ended; status 1 if the model or the port is not to be had, in which case llama.cpp has
    said why.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--alias", required=True, help="name the model is served under")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--context", type=int, required=True, help="longest prompt plus output, tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--window", type=int, default=0, help="most tokens proposed per step; 0 decodes plainly"
    )
    arguments = parser.parse_args(argv)
    xllamacpp = _library()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        server = xllamacpp.Server(parameters(arguments))
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"listening on {server.listening_address}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
