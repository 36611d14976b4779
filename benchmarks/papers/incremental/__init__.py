"""The experiments of a paper on incremental sliding windows: how operators learn that rows have left.

README.md tells what is measured and what came out, in results/; from the folder `benchmarks`:

    python -m papers.incremental.run            all figures, on a clock that counts what operators handle
    python -m papers.incremental.throughput     the same workloads in real time
"""
