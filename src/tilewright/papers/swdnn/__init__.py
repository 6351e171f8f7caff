"""swDNN, a library for deep learning on Sunway TaihuLight (IPDPS 2017), reproduced."""
