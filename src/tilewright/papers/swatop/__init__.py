"""swATOP, automatic tuning of deep-learning operators on the SW26010 (ICPP 2019), reproduced."""
