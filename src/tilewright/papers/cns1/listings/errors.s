// ICSI TR-93-046, appendix A.2.2: step 5, error of the output layer, one pass of 128 elements.
// The printed listing ends before its loop does: the end is that of Table 6.1 (repair 11).
    .set fac_offset, 0
start:
    $11 = d[$sp+fac_offset].w           // repairs 1, 2
    $8 = 32
    $9 = $8 << 1
    vlr = $8                            // repair 12
    $vs1 = $11                          // repair 13
    $10 = $6 + $5
loop:                                   // repair 11
    $v1 = m[$4+=$8].b
    $v5 = d[$6+=$8].b                   // repair 2
    $v2 = m[$4+=$8].b
    $v6 = d[$6+=$8].b
    $v3 = m[$4+=$8].b
    $v7 = d[$6+=$8].b
    $v4 = m[$4+=$8].b
    $v8 = d[$6+=$8].b
    $v1 = $v1 - $v5
    $v2 = $v2 - $v6
    $v1 = $v1 * $vs1                    // repair 13
    $v3 = $v3 - $v7
    $v2 = $v2 * $vs1
    d[$7+=$9].h = $v1
    $v4 = $v4 - $v8
    $v3 = $v3 * $vs1
    d[$7+=$9].h = $v2                   // repair 11, from here on
    $v4 = $v4 * $vs1
    d[$7+=$9].h = $v3
    if ($6 != $10) loop
    d[$7+=$9].h = $v4
return:
    goto $31
    nop
