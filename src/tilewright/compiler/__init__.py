"""The compiler: workloads in; kernels, networks and divisions out, compiled for one machine."""
