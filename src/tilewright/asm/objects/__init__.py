"""Objects and images: sections, symbols, relocation, ELF files, listings."""
