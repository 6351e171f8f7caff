"""Cache of compiled and computed results: private folders, digests of the inputs as keys.

In: a key (`common.digest`) and how to make what belongs to it. Out: what was made, from the cache
if it is whole. `folders` decides which folders are trusted, `entries` what a whole entry is,
`store` keeps and finds entries, `inventory` looks at all of them.
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
