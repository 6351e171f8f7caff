"""Properties draw the same examples in every run, more and others with `make fuzz`."""

from support.examples import register_profiles

register_profiles()
