"""Benchmark suites, one module each; scripts/bench.py runs them."""
