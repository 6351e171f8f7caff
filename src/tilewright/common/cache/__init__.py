"""Cache of compiled and computed results: private folders, digests of the inputs as keys.

In: a key (`common.digest`) and a function that makes the result. Out: the result, from the cache if
its entry is intact. `folders` decides which folders are trusted, `entries` which entries are
intact; `store` keeps and finds entries; `inventory` lists, verifies and removes them.
"""

from tilewright.common.cache.folders import CacheError, cache_folder
from tilewright.common.cache.inventory import KindContent, clear, contents, damaged_entries
from tilewright.common.cache.store import INSTALLED, CacheStore, Make

__all__ = [
    "INSTALLED",
    "CacheError",
    "CacheStore",
    "KindContent",
    "Make",
    "cache_folder",
    "clear",
    "contents",
    "damaged_entries",
]
