"""Parts of an estimate for this computer beyond its calls: caches, streams, threads."""
