"""Attacks by gradient on the images that a network sees, and how often they succeed (varnet.attack.robustness)."""

from varnet.attack.gradient import Attack, Pixels, random_targets, run

__all__ = ["Attack", "Pixels", "random_targets", "run"]
