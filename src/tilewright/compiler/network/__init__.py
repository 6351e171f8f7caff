"""Networks for this computer: a graph of operators in, one C function out."""
