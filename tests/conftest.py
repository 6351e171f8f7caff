"""Properties draw the same examples in every run, more and others with `make fuzz`.

What is compiled on the way is kept in the checkout, not among the user's own files.
"""

import os
from pathlib import Path

from support.examples import register_profiles

register_profiles()
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
