"""The experiments of the paper on Fjords: many queries over one pushed source, and sensors that are told what is needed.

README.md tells what is measured and what came out, in results/; from the folder `benchmarks`:

    python -m papers.fjords.run            all figures
"""
