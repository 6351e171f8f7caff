"""Every table and figure of the papers that has numbers, found by name: PAPER/EXPERIMENT.

An experiment is one module `papers/PAPER/EXPERIMENT.py` with `TITLE`, `run(lab) -> Findings` and,
if it has a picture, `draw(result) -> Figure`. A module with `TITLES` has several: functions by
their names and `draw_NAME`, or one `run` that dispatches on `lab.experiment`. Printed numbers are
in `papers/PAPER/published/*.csv`, beside the formulas that yield ours, if any. To add an
experiment, add the module and its CSV; nothing else is edited.
"""
