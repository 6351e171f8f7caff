"""swATOP, automatic tuning of deep-learning operators on the SW26010 (ICPP 2019), reproduced."""

TAKES_OPTIONS = True
"""All experiments here accept `machine=NAME` and numbers of the machine (`schedules.setting`)."""
