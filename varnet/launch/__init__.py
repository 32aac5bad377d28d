"""How runs are started: command lines, sweeps, pools of processes, and how a command ends.

command.py   the order of flags, folders given by name, where numbers go
ending.py    one sentence and an exit code
table.py     the table at the end of a run
sweep.py     a sweep of train.py: planned and checked before its first job, told at its end
jobs.py      one job of such a sweep, wherever its launcher runs it
pool.py      many runs at a time, each in a process of its own
queue.py     experiments in a queue, with one estimate of the time that is left
"""
