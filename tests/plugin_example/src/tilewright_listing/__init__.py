"""The smallest family of machines: its code is the program's own text."""

from tilewright.machine import Family

TARGET = Family("listing", __name__)
