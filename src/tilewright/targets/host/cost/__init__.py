"""Parts of an estimate for this computer besides its calls: caches, stores, threads."""
