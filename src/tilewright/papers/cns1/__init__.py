"""ICSI TR-93-046: S. M. Mueller, A Performance Analysis of the CNS-1 on Large, Dense Networks."""
