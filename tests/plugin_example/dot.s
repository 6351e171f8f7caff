-- A dot product of 64 neurons and 64 synapses, 16 at a time.
.neuron
inputs:
.rept 64
.half 3
.endr
result: .word 0
.synapse
weights:
.rept 64
.half -2
.endr
.code
    add r1, r0, $inputs
    add r2, r0, $weights
    add r3, r0, $4
    spread v0, r0
loop:
    ldn16 v1, [r1+0]
    lds16 v2, [r2+0]
    vmac v0, v1, v2, v0
    add r1, r1, $32
    add r2, r2, $32
    add r3, r3, $-1
    bnz r3, loop
    vsum r4, v0
    stn r4, [r0+result]
    stop
