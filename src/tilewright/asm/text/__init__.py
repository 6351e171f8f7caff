"""Assembly text: lines, expressions and macros read to statements."""
