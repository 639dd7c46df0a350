"""Compiles the candidates of Triton's autotuner at once.

Triton compiles one candidate after the other, which takes minutes for FLA's kernels in a process without a cache. Here all
candidates of a kernel are compiled by as many threads as there are processors, then timed one after the other as usual, so
that the choice is the same. Needs results of autotuning to be kept (TRITON_CACHE_AUTOTUNING=1).
"""

import os
from concurrent.futures import ThreadPoolExecutor

from triton.runtime._async_compile import AsyncCompileMode
from triton.runtime.autotuner import Autotuner


def compile_candidates(tuner, configs, arguments):
    """Compiles a kernel for each configuration; one that does not compile is left to the autotuner to report."""
    arguments = {**tuner.nargs, **{name: value for name, value in arguments.items() if name not in ("grid", "warmup")}}
    with ThreadPoolExecutor(os.cpu_count()) as threads, AsyncCompileMode(threads, ignore_errors=True):
        for config in configs:
            tuner.fn.warmup(grid=(1,), **arguments, **config.all_kwargs())


def compile_in_parallel():
    """Makes every autotuner of this process compile its candidates at once."""
    prune, check_cache = Autotuner.prune_configs, Autotuner.check_disk_cache

    def prune_configs(tuner, arguments):
        tuner.launch_arguments = arguments
        return prune(tuner, arguments)

    def check_disk_cache(tuner, key, configs, benchmark):
        def compile_and_benchmark():
            compile_candidates(tuner, configs, tuner.launch_arguments)
            benchmark()

        return check_cache(tuner, key, configs, compile_and_benchmark)

    Autotuner.prune_configs, Autotuner.check_disk_cache = prune_configs, check_disk_cache
