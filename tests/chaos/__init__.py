"""Faults without an end: python -m tests.chaos [minutes=60] [seed=0] (make chaos MINUTES=60)

world.py   what is tried: a tiny run, and what it has to come to whatever happens
kinds.py   what happens, one function for each kind; more are added to its list
"""
