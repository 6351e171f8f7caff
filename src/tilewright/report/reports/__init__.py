"""Reports on folders of `compile -o`, one module each, identified by its TITLE and SUFFIX."""
