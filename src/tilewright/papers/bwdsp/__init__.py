"""Wang et al. 2019 (in Chinese): dividing the layers of a CNN over the 56 cores of a BWDSP."""
