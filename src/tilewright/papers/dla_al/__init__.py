"""Lan et al., Assembly language and assembler for deep learning accelerators, 2019."""
