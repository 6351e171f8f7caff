"""Every table and figure of the papers that has numbers, found by name: PAPER/EXPERIMENT.

An experiment is one module `papers/PAPER/EXPERIMENT.py` with `TITLE`, `run(lab) -> Findings` and,
if it has a picture, `draw(result) -> Figure`; a module with `TITLES` has several, functions by
their names and `draw_NAME`, or `run` for what `lab.experiment` names. Numbers that the papers print
are in `papers/PAPER/published/*.csv`, with formulas beside them where one gives ours. To add an
experiment, add the module and its CSV; nothing else is edited.
"""
