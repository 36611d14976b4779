"""The experiments of the PSoup paper: what it costs to ask, and to keep answers ready.

README.md tells what is measured and what came out, in results/; from the folder `benchmarks`:

    python -m papers.psoup.run            all figures
"""
