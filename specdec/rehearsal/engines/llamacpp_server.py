"""llama.cpp's HTTP server as a program of its own: ``python -m specdec.rehearsal.engines.llamacpp_server``.

Prints ``listening on <address>`` when the model is loaded, then serves until it is ended.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from specdec.forecast.lookup import matched_tokens

MATCHED_TOKENS = 3
"""Length of the run of tokens that is looked up: the last so many must have occurred before."""


def _library() -> Any:
    # Threads wait for each other at every layer. Those that spin meanwhile take the processor from the ones
    # waited for, if anything else runs: six times slower on two busy cores. OpenMP reads this when loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A compiled extension without type information.
    return importlib.import_module("xllamacpp")


def parameters(arguments: argparse.Namespace) -> Any:
    """The server's settings.

    Both variants differ in the speculation fields and in nothing else. The target's keys and values are
    cached as 32-bit floats: 16-bit rounding lets the text of a batch of proposals drift from that of single
    steps. For the same reason look-up goes without the fused attention kernel. A draft model goes with it:
    with it, and with no more than 63 tokens at a time, the draft chooses the same token whether a position is
    computed alone or with others, and one pass over a text tells all its choices (``forecast.model``).
    """
    xllamacpp = _library()
    settings = xllamacpp.CommonParams()
    settings.model.path = arguments.model
    settings.model_alias = {arguments.alias}
    settings.hostnames = ["127.0.0.1"]
    settings.port = arguments.port
    settings.n_ctx = arguments.slots * arguments.context
    settings.n_parallel = arguments.slots
    settings.cpuparams.n_threads = arguments.threads
    settings.cpuparams_batch.n_threads = arguments.threads
    settings.n_threads_http = 2
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    attention = xllamacpp.llama_flash_attn_type
    settings.flash_attn_type = (
        attention.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if arguments.fused_attention
        else attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    # A cached prompt would make the time to the first token of a repeat another quantity than that of the
    # first time.
    settings.cache_prompt = False
    settings.cache_ram_mib = 0
    settings.endpoint_metrics = True
    settings.endpoint_slots = False
    settings.ui = False
    settings.verbosity = 1
    kinds = xllamacpp.common_speculative_type
    if arguments.window and arguments.draft:
        draft = settings.speculative.draft
        settings.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        draft.mparams.path = arguments.draft
        draft.n_max = arguments.window
        # As vLLM does: the window is always filled, however unsure the draft is.
        draft.n_min = 0
        draft.p_min = 0.0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = arguments.threads
        draft.cache_type_k = draft.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F16
    elif arguments.window:
        settings.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        settings.speculative.ngram_simple.size_n = matched_tokens(arguments.window, MATCHED_TOKENS)
        settings.speculative.ngram_simple.size_m = arguments.window
    return settings


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until ended; status 1 if the model cannot be loaded or the port is taken; llama.cpp has said
    why.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--alias", required=True, help="name the model is served under")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--context", type=int, required=True, help="longest prompt plus output, tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1, help="requests decoded together")
    parser.add_argument("--fused-attention", action="store_true", help="use the fused attention kernel")
    parser.add_argument("--draft", help="GGUF file of a draft model; by default proposals are looked up")
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
