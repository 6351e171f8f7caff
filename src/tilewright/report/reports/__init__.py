"""Reports of what `compile -o` wrote, one module each; its TITLE and SUFFIX say that it is one."""
