"""DLA-AL, the language of Lan et al. 2019: data with segments, macros, blocks, fusion."""
