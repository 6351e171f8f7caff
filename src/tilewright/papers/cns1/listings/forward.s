// ICSI TR-93-046, appendix A.2.1: kernel 2, the forward pass of training: recall for one pattern.
// Repaired where the printed text cannot be meant; papers/cns1/listings.py says what each repair is.
// Passed in memory at $sp: outputs1, scale, sigmoid.
    .set outputs1_offset, 0
    .set scale_offset, 4
    .set sigmoid_offset, 8
start:
    $8 = d[$sp+outputs1_offset].w       // repairs 1, 2
    $9 = $6 << 1
    $10 = 32
    vlr = $10                           // repair 1
    $24 = $10                           // repair 20
    $10 = $7 + $5
    $15 = $4 + $9
    $14 = $4
    $20 = $4 + 64
    $13 = $7
    $22 = d[$sp+scale_offset].w         // repairs 1, 2
    vshift = $22                        // repair 8
    $23 = d[$sp+sigmoid_offset].w       // repairs 1, 2
    $25 = 128                           // repair 9
outerloop:
    $v1 = m[$14+=$9].h                  // repair 1, as for all vectors below
    $11 = d[$13].w                      // repairs 1, 2
    $v5 = $v0
    $v6 = $v0
    $12 = $11 shl 24
    $12 = $12 shr 24
    $v2 = m[$20+=$9].h
    $vs1 = $12
innerloop:
    $v3 = m[$14+=$9].h
    $v5 += $v1 * $vs1
    $12 = $11 shl 16
    $12 = $12 shr 24
    $v4 = m[$20+=$9].h
    $v6 += $v2 * $vs1                   // repair 4
    $vs1 = $12
    $v1 = m[$14+=$9].h
    $v5 += $v3 * $vs1                   // repairs 4, 5
    $12 = $11 shl 8
    $12 = $12 shr 24
    $v2 = m[$20+=$9].h
    $13 += 4
    $v6 += $v4 * $vs1
    if ($13 == $10) endloop             // repair 5
    $vs1 = $12
    $v3 = m[$14+=$9].h
    $v5 += $v1 * $vs1
    $12 = $11 shr 24
    $11 = d[$13].w                      // repairs 2, 3
    $v4 = m[$20+=$9].h
    $v6 += $v2 * $vs1                   // repair 4
    $vs1 = $12
    $v1 = m[$14+=$9].h
    $v5 += $v3 * $vs1                   // repair 4
    $12 = $11 shl 24
    $12 = $12 shr 24
    $v2 = m[$20+=$9].h
    $v6 += $v4 * $vs1
    goto innerloop
    $vs1 = $12
endloop:                                // repair 5
    $vs1 = $12
    $v3 = m[$14+=$9].h
    $v5 += $v1 * $vs1
    $12 = $11 shr 24
    $v4 = m[$20+=$9].h
    $v6 += $v2 * $vs1                   // repair 4
    $vs1 = $12
    $v5 += $v3 * $vs1                   // repair 4
    $v9 = $v5
    $4 = $4 + 128
    $v6 += $v4 * $vs1
    $14 = $4
    $20 = $4 + 64
    $v10 = $v6
// globalsum: message handlers, not part of a node           repair 10
sigmoid:
    $27 = 8192                          // repair 9: preload sigmoid table into RDRAM cache
    $27 = $27 << 1
    $26 = $23 - $27
    $v0 = m[$26+=$25].w
    $v0 = m[$26+=$25].w
    $v0 = m[$26+=$25].w
    $v0 = m[$26+=$25].w
    $v0 = m[$23].w                      // only for 32K table, 4.5Mb chip
    $26 = $23 + $25
    $v0 = m[$26+=$25].w
    $v0 = m[$26+=$25].w
    $v0 = m[$26+=$25].w
    $v9 = $v0 addap0 $v9
    $v9 = m[$23+$v9].b
    $v10 = $v0 addap0 $v10
    $v10 = m[$23+$v10].b
    d[$8+=$24].b = $v9                  // repairs 2, 20
    $13 = $7
    if ($4 != $15) outerloop
    d[$8+=$24].b = $v10                 // repairs 2, 20
return:
    goto $31
    nop
