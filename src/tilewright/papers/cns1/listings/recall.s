// ICSI TR-93-046, appendix A.1: kernel 1, recall, two patterns. Repaired where the printed text
// cannot be meant; each repair has a number, and papers/cns1/listings.py says what it is.
// Passed in memory at $sp: inputs2, outputs1, outputs2, scale, sigmoid.
    .set inputs2_offset, 0
    .set outputs1_offset, 4
    .set outputs2_offset, 8
    .set scale_offset, 12
    .set sigmoid_offset, 16
start:
    $8 = d[$sp+outputs1_offset].w       // repairs 1, 2
    $9 = $6 << 1
    $10 = 32
    $17 = d[$sp+outputs2_offset].w
    vlr = $10                           // repair 1
    $24 = $10                           // repair 7
    $10 = $7 + $5
    $15 = $4 + $9
    $16 = d[$sp+inputs2_offset].w
    $14 = $4
    $20 = $4 + 64
    $13 = $7
    $22 = d[$sp+scale_offset].w
    vshift = $22                        // repair 8
    $23 = d[$sp+sigmoid_offset].w
    $25 = 128                           // repair 9
outerloop:
    $v1 = m[$14+=$9].h                  // repair 1
    $11 = d[$13].w                      // repair 2
    $v5 = $v0
    $v6 = $v0
    $12 = $11 shl 24
    $12 = $12 shr 24
    $18 = $16
    $v2 = m[$20+=$9].h
    $19 = d[$18].w
    $v7 = $v0
    $v8 = $v0
    $21 = $19 shl 24
    $21 = $21 shr 24
    $vs1 = $12
innerloop:
    $v3 = m[$14+=$9].h
    $vs2 = $21
    $v5 += $v1 * $vs1
    nop
    $12 = $11 shl 16
    $12 = $12 shr 24
    $v7 += $v1 * $vs2
    $v4 = m[$20+=$9].h
    nop
    $v6 += $v2 * $vs1                   // repair 4
    nop
    $21 = $19 shl 16
    $21 = $21 shr 24
    $v8 += $v2 * $vs2                   // repair 4
    $vs1 = $12
    $v1 = m[$14+=$9].h
    $vs2 = $21
    $v5 += $v3 * $vs1                   // repair 4
    nop
    $12 = $11 shl 8
    $12 = $12 shr 24
    $v7 += $v3 * $vs2                   // repair 4
    $18 += 4
    $v2 = m[$20+=$9].h
    $13 += 4
    $v6 += $v4 * $vs1
    if ($13 == $10) endloop             // repair 5
    $21 = $19 shl 8
    $21 = $21 shr 24
    $v8 += $v4 * $vs2
    $vs1 = $12
    $v3 = m[$14+=$9].h
    $vs2 = $21
    $v5 += $v1 * $vs1
    nop
    $12 = $11 shr 24
    $11 = d[$13].w                      // repairs 2, 3
    $v7 += $v1 * $vs2
    nop
    $v4 = m[$20+=$9].h
    nop
    $v6 += $v2 * $vs1                   // repair 4
    nop
    $21 = $19 shr 24
    $19 = d[$18].w                      // repairs 1, 2, 3
    $v8 += $v2 * $vs2                   // repair 4
    $vs1 = $12
    $v1 = m[$14+=$9].h
    $vs2 = $21
    $v5 += $v3 * $vs1                   // repair 4
    nop
    $12 = $11 shl 24
    $12 = $12 shr 24
    $v7 += $v3 * $vs2                   // repair 4
    nop
    $v2 = m[$20+=$9].h
    nop
    $v6 += $v4 * $vs1
    nop
    $21 = $19 shl 24
    $21 = $21 shr 24
    $v8 += $v4 * $vs2
    goto innerloop
    $vs1 = $12
endloop:                                // repair 5
    $21 = $21 shr 24
    $v8 += $v4 * $vs2
    $vs1 = $12
    $v3 = m[$14+=$9].h
    $vs2 = $21
    $v5 += $v1 * $vs1
    nop
    $12 = $11 shr 24
    nop
    $v7 += $v1 * $vs2
    nop
    $v4 = m[$20+=$9].h
    nop
    $v6 += $v2 * $vs1                   // repair 4
    nop
    $21 = $19 shr 24
    nop
    $v8 += $v2 * $vs2                   // repair 4
    $vs1 = $12
    nop
    $vs2 = $21
    $v5 += $v3 * $vs1                   // repair 4
    $4 = $4 + 128
    nop
    $v7 += $v3 * $vs2                   // repair 4
    $v9 = $v5                           // repair 6
    nop
    nop
    $v6 += $v4 * $vs1
    $v11 = $v7                          // repair 6
    $14 = $4
    $20 = $4 + 64
    $v8 += $v4 * $vs2
    $v10 = $v6
    nop
    nop
    nop
    $v12 = $v8
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
    d[$8+=$24].b = $v9                  // repair 7
    $v11 = $v0 addap0 $v11
    $v11 = m[$23+$v11].b
    d[$8+=$24].b = $v10                 // repair 7
    $v12 = $v0 addap0 $v12
    $v12 = m[$23+$v12].b
    d[$17+=$24].b = $v11                // repair 7
    $13 = $7
    if ($4 != $15) outerloop
    d[$17+=$24].b = $v12                // repair 7
return:
    goto $31
    nop
