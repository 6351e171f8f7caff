"""The matrix primitive in assembly: its instances, slot template, code and exact cycles."""
