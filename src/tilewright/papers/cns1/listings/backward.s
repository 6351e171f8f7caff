// ICSI TR-93-046, appendix A.2.2: steps 6 and 7, the error of the hidden layer, 32 rows a round.
// $4 weights, $5 rows, $6 columns, $7 hidden vector; both errors are parameters.
    .set outerr_offset, 0
    .set inerr_offset, 4
    .set interm_offset, -128
start:
    $8 = d[$sp+outerr_offset].w         // repairs 1, 2
    $9 = $6 << 1
    $24 = $6 << 3
    $10 = 1
    $vs1 = $10                          // repair 1
    $10 = 32
    vlr = $10                           // repair 1
    $10 = $10 << 1
    $16 = $7 + $5
    $17 = $9                            // repair 14
    $14 = $4
    $18 = d[$sp+inerr_offset].w         // repairs 1, 2
    $15 = $4 + $10
    $23 = $0
    $19 = $sp + interm_offset           // repairs 1, 18
    $21 = $19 + 128
    $13 = $8
    $22 = $19
outerloop:
loop:
    $v7 = m[$14+=$9].h                  // repair 1, as for all vectors below
    $v1 = d[$13+=$10].h                 // repair 2
    $v3 = $v0
    $v4 = $v0
    $v8 = m[$15+=$9].h
    $v2 = d[$13+=$10].h                 // repair 2
    $v5 = $v0
    $v6 = $v0
innerloop:
    $v9 = m[$14+=$9].h
    $v3 += $v7 * $v1
    $v10 = m[$15+=$9].h
    $v3 += $v8 * $v2
    $v7 = m[$14+=$9].h
    $v4 += $v9 * $v1
    $23 = $23 + $10
    $v8 = m[$15+=$9].h
    $v4 += $v10 * $v2
    $23 = $23 + $10
    $v9 = m[$14].h
    $v5 += $v7 * $v1
    $14 = $4 + $23
    $v10 = m[$15].h
    $v5 += $v8 * $v2
    if ($23 == $17) innerend
    $15 = $14 + $10
    $v7 = m[$14+=$9].h
    $v6 += $v9 * $v1
    $v1 = d[$13+=$10].h                 // repair 2
    $v8 = m[$15+=$9].h
    $v6 += $v10 * $v2
    goto innerloop
    $v2 = d[$13+=$10].h                 // repair 2
innerend:
    $4 = $4 + $24
    $v6 += $v9 * $v1
    $14 = $4
    $15 = $4 + $10
    $23 = $0
    $13 = $8                            // repair 16
    $v6 += $v10 * $v2
    $20 = 16
reduce:
    vlr = $20                           // repair 12
    $v7 = $v3[$20]
    $v8 = $v4[$20]
    $v3 = $v3 + $v7
    $v9 = $v5[$20]
    $v4 = $v4 + $v8
    $v10 = $v6[$20]
    $v5 = $v5 + $v9
    $20 = $20 >> 1
    if ($20 > $0) reduce                // repair 1
    $v6 = $v6 + $v10
    $20 = 4
    d[$22+=$20].w = $v3                 // repair 2
    d[$22+=$20].w = $v4
    d[$22+=$20].w = $v5
    d[$22+=$20].w = $v6
    $20 = 32
    if ($22 != $21) loop
    vlr = $20                           // repair 12
    $v11 = d[$19].w                     // repair 2
    $22 = $19
    $v12 = d[$7+=$20].b                 // repairs 2, 19; gsum($v11) stands here, repair 10
    $v11 = $v11 * $v12
    $v12 = $v12 - $vs1
    $22 = $19
    $v11 = $v11 * $v12
    if ($7 != $16) outerloop
    m[$18+=$10].h = $v11
    goto $31
    nop
