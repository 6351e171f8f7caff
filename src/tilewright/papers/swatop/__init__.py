"""swATOP, automatic tuning of deep-learning operators on the SW26010 (ICPP 2019), reproduced."""

TAKES_OPTIONS = True
"""Of every experiment here: `machine=NAME`, and numbers of the machine (`schedules.setting`)."""
