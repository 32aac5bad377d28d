"""Exploration by parameter noise (paper section 6.2, Figure 6): REINFORCE with one draw of the weights per episode.

env.py        the two tasks, from gymnasium (pip install 'varnet[rl]')
policy.py     observation -> logits of the actions; the second of three dense layers may be random
episode.py    one episode with the weights held
reinforce.py  returns, baseline and loss of the policy gradient
trainer.py    one run: an update and an evaluation per episode, checkpoints
run.py        a configuration -> a run and its numbers
sweep.py      many runs at a time, each in a process of its own
grid.py       the configurations of a sweep
render.py     a trained policy as a GIF
"""
