// ICSI TR-93-046, appendix A.2.4: the weight update, four rows of 64 columns a pass.
// $4 weights, $5 rows, $6 columns, $7 inputs; the errors' place in the cache is a parameter.
    .set outputs_offset, 0
start:
    $8 = d[$sp+outputs_offset].w        // repairs 1, 2
    $9 = $6 << 1
    $24 = $6 << 3
    $10 = 32
    vlr = $10                           // repair 1
    $10 = $10 << 1
    $16 = $7 + $5
    $17 = $9                            // repair 14
    $14 = $4
    $15 = $4 + $10
    $23 = $0
    $13 = $8
outerloop:
    $v3 = m[$14+=$9].h                  // repair 1, as for all vectors below
    $11 = d[$7].w                       // repairs 2, 3
    $v1 = d[$13+=$10].h                 // repair 2
    $7 = $7 + 4
    $12 = $11 shl 24
    $12 = $12 shr 24
    $vs1 = $12
    $v4 = m[$15+=$9].h
    $v11 = $v1 * $vs1
    $v2 = d[$13+=$10].h                 // repair 2
    $12 = $11 shl 16
    $12 = $12 shr 24
    $vs2 = $12
    $12 = $11 shl 8
    $v5 = m[$14+=$9].h
    $v12 = $v2 * $vs1
    $v3 = $v3 + $v11
    $12 = $12 shr 24
    $vs3 = $12
    $12 = $11 shr 24                    // repair 15
    $vs4 = $12
innerloop:
    $v6 = m[$15+=$9].h
    $v11 = $v1 * $vs2
    $v4 = $v4 + $v12
    $v7 = m[$14+=$9].h
    $v12 = $v2 * $vs2
    $v5 = $v5 + $v11
    $v8 = m[$15+=$9].h
    $v11 = $v1 * $vs3
    $v6 = $v6 + $v12
    $v9 = m[$14].h
    $v12 = $v2 * $vs3
    $v7 = $v7 + $v11
    $14 = $4 + $23
    $v10 = m[$15].h
    $v11 = $v1 * $vs4
    $v8 = $v8 + $v12
    $15 = $14 + $10
    m[$14+=$9].h = $v3
    $v12 = $v2 * $vs4
    $v9 = $v9 + $v11
    m[$15+=$9].h = $v4
    $23 = $23 + $10
    $v10 = $v10 + $v12
    m[$14+=$9].h = $v5
    $23 = $23 + $10
    m[$15+=$9].h = $v6
    m[$14+=$9].h = $v7
    m[$15+=$9].h = $v8
    if ($23 == $17) loopend
    m[$14].h = $v9
    $14 = $23 + $4
    m[$15].h = $v10                     // repair 5
    $15 = $14 + $10
    $v3 = m[$14+=$9].h
    $v1 = d[$13+=$10].h                 // repair 2
    $v4 = m[$15+=$9].h
    $v11 = $v1 * $vs1
    $v2 = d[$13+=$10].h                 // repair 2
    $v5 = m[$14+=$9].h
    $v12 = $v2 * $vs1
    goto innerloop
    $v3 = $v3 + $v11
loopend:
    $23 = $0
    $4 = $4 + $24
    m[$15].h = $v10
    $14 = $4 + $23
    $13 = $8                            // repair 16
    if ($7 != $16) outerloop
    $15 = $14 + $10
    goto $31
    nop                                 // repair 17
