// gemm_gemm.S: C += A B on 8 x 8 cores, one routine per shape. Generated.
//
// void routine(const void *a, const void *b, void *c, void *workspace): $16 .. $19.
// Keeps $9 .. $15, $26, $29, $30; takes 800 bytes of stack.
// All cores call together; operands are aligned to vectors.
    .text

    .align 4
    .globl gemm_gemm_f64_n_row_row_16x16x4_4_16_16
    .type gemm_gemm_f64_n_row_row_16x16x4_4_16_16, @function
gemm_gemm_f64_n_row_row_16x16x4_4_16_16:
    ldi $0, -800($30)
    srl $0, 5, $0
    sll $0, 5, $0
    stl $26, 736($0)
    stl $29, 744($0)
    stl $30, 752($0)
    vstd $9, 512($0)
    vstd $10, 544($0)
    vstd $11, 576($0)
    vstd $12, 608($0)
    vstd $13, 640($0)
    vstd $14, 672($0)
    vstd $15, 704($0)
    ldi $30, 0($0)
    ldi $20, 0($19)
    ldi $19, 0($0)
    bsr $26, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh
    vldd $9, 512($30)
    vldd $10, 544($30)
    vldd $11, 576($30)
    vldd $12, 608($30)
    vldd $13, 640($30)
    vldd $14, 672($30)
    vldd $15, 704($30)
    ldl $26, 736($30)
    ldl $29, 744($30)
    ldl $30, 752($30)
    ret $26
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh:
    stl $26, 152($19)
    stl $29, 160($19)
    stl $30, 168($19)
    bsr $0, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_anchor
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_anchor:
    rcsr $1, 1
    ldi $23, 2052($0)
    rcsr $2, 2
    ldi $24, 2160($0)
    cmpeq $2, 0, $3
    stl $23, 192($19)
    stl $24, 320($19)
    ldi $25, 2424($0)
    ldi $23, 2540($0)
    ldi $24, 2812($0)
    cmpeq $1, 0, $11
    addl $3, $3, $4
    cmpeq $2, 1, $3
    stl $25, 224($19)
    stl $23, 352($19)
    ldi $25, 2924($0)
    stl $24, 256($19)
    ldi $23, 3192($0)
    ldi $24, 3312($0)
    addl $11, $4, $11
    cmpeq $1, 1, $12
    addl $3, $3, $4
    cmpeq $2, 2, $3
    stl $25, 384($19)
    stl $23, 288($19)
    ldi $25, 3588($0)
    stl $24, 416($19)
    ldi $23, 3692($0)
    ldi $24, 3952($0)
    addl $12, $4, $12
    cmpeq $1, 2, $13
    addl $3, $3, $4
    cmpeq $2, 3, $3
    stl $25, 200($19)
    stl $23, 328($19)
    ldi $25, 4060($0)
    stl $24, 264($19)
    ldi $23, 4324($0)
    ldi $24, 4432($0)
    addl $13, $4, $13
    cmpeq $1, 3, $14
    addl $3, $3, $4
    cmpeq $2, 4, $3
    stl $25, 392($19)
    stl $23, 208($19)
    ldi $25, 4696($0)
    stl $24, 336($19)
    ldi $23, 4812($0)
    ldi $24, 5084($0)
    addl $14, $4, $14
    cmpeq $1, 4, $15
    addl $3, $3, $4
    cmpeq $2, 5, $3
    stl $25, 240($19)
    stl $23, 368($19)
    ldi $25, 5188($0)
    stl $24, 216($19)
    ldi $23, 816($0)
    ldi $24, 724($0)
    addl $15, $4, $15
    cmpeq $1, 5, $20
    addl $3, $3, $4
    cmpeq $2, 6, $3
    stl $25, 344($19)
    stl $23, 448($19)
    ldi $25, 1180($0)
    stl $24, 480($19)
    ldi $23, 1080($0)
    ldi $24, 1536($0)
    addl $20, $4, $20
    cmpeq $1, 6, $21
    addl $3, $3, $4
    cmpeq $2, 7, $3
    stl $25, 456($19)
    stl $23, 488($19)
    ldi $25, 1440($0)
    stl $24, 464($19)
    ldi $23, 1908($0)
    ldi $24, 1804($0)
    addl $21, $4, $21
    addl $3, $3, $4
    s4addl $12, $11, $3
    stl $25, 496($19)
    cmpeq $1, 7, $22
    stl $23, 472($19)
    s8addl $3, $19, $3
    stl $24, 504($19)
    addl $22, $4, $22
    ldl $4, 192($3)
    s4addl $13, $12, $3
    s8addl $3, $19, $3
    ldi $5, 0($17)
    ldi $6, 0($16)
    ldi $16, 0($18)
    stl $4, 0($19)
    stl $4, 64($19)
    ldl $4, 192($3)
    s4addl $14, $13, $3
    s8addl $3, $19, $3
    stl $4, 8($19)
    stl $4, 72($19)
    ldl $4, 192($3)
    s4addl $15, $14, $3
    s8addl $3, $19, $3
    stl $4, 16($19)
    stl $4, 80($19)
    ldl $4, 192($3)
    s4addl $20, $15, $3
    s8addl $3, $19, $3
    stl $4, 24($19)
    stl $4, 88($19)
    ldl $4, 192($3)
    s4addl $21, $20, $3
    s8addl $3, $19, $3
    stl $4, 32($19)
    stl $4, 96($19)
    ldl $4, 192($3)
    s4addl $22, $21, $3
    s8addl $3, $19, $3
    stl $4, 40($19)
    stl $4, 104($19)
    ldl $4, 192($3)
    s4addl $11, $22, $3
    s8addl $3, $19, $3
    stl $4, 48($19)
    stl $4, 112($19)
    ldl $4, 320($3)
    s8addl $22, $19, $3
    stl $4, 56($19)
    ldl $4, 448($3)
    s8addl $11, $19, $3
    stl $4, 120($19)
    ldl $4, 480($3)
    ldi $3, 1($31)
    stl $3, 136($19)
    stl $4, 144($19)
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_row:
    ldl $18, 144($19)
    ldi $3, 0($16)
    ldi $3, 1536($3)
    stl $3, 128($19)
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row:
    ldi $19, -128($19)
    ldi $5, -384($5)
    ldl $3, 136($19)
    ldi $6, -416($6)
    ldi $16, -1408($16)
    subl $3, 1, $3
    stl $3, 136($19)
    bne $3, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_row
    ldl $26, 152($19)
    ldl $29, 160($19)
    ldl $30, 168($19)
    ret $26
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    subl $17, 1, $17
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    bne $17, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_start_gg:
    vldd $11, 0($16)
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, 8($19)
    ldi $17, 3($31)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_gg:
    getc $2
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getc $3
    vmad $1, $9, $23, $23
    getr $10
    vmad $2, $9, $24, $24
    getc $4
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    subl $17, 1, $17
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    bne $17, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_start_pg:
    vldd $11, 0($16)
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, 8($19)
    ldi $17, 3($31)
    vldc $1, 0($5)
    getr $7
    vldc $2, 32($5)
    vldc $3, 64($5)
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_pg:
    vldc $4, 96($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    ldder $7, 8($6)
    vmad $4, $8, $22, $22
    ldi $6, 8($6)
    vmad $2, $10, $28, $28
    subl $17, 1, $17
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
    bne $17, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_start_gp:
    vldd $11, 0($16)
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, 8($19)
    ldi $17, 3($31)
    ldder $7, 0($6)
    ldder $8, 32($6)
    getc $1
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_gp:
    ldder $10, 96($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    ldi $6, 8($6)
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $23, 256($16)
    vmad $2, $10, $28, $28
    vstd $20, 160($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    ldder $7, 8($6)
    vmad $4, $8, $22, $22
    ldi $6, 8($6)
    vmad $2, $10, $28, $28
    subl $17, 1, $17
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
    bne $17, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_start_pp:
    vldd $11, 0($16)
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, 8($19)
    ldi $17, 3($31)
    vldc $1, 0($5)
    ldder $7, 0($6)
    ldder $8, 32($6)
    vldc $2, 32($5)
    vldc $3, 64($5)
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_pp:
    vldc $4, 96($5)
    vmad $1, $8, $15, $15
    ldder $10, 96($6)
    vmad $2, $8, $20, $20
    vmad $1, $9, $23, $23
    ldi $5, 128($5)
    vmad $2, $9, $24, $24
    ldi $6, 8($6)
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gg_gg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    ldi $19, 8($19)
    vmad $2, $7, $12, $12
    ldi $17, 3($31)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gg_gg:
    getc $2
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getc $3
    vmad $1, $9, $23, $23
    getr $10
    vmad $2, $9, $24, $24
    getc $4
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    ldl $0, 64($19)
    vmad $4, $7, $14, $14
    vstd $11, 0($16)
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    ldi $5, -512($5)
    vstd $28, 416($16)
    ldi $6, 96($6)
    vstd $21, 192($16)
    ldi $17, 3($31)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldd $11, 0($16)
    cmpeq $16, $0, $0
    vldd $15, 128($16)
    sll $0, 6, $0
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, -56($19)
    getr $7
    addl $19, $0, $19
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gg_pg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    ldi $19, 8($19)
    vmad $4, $8, $22, $22
    ldi $17, 3($31)
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gg_pg:
    getc $2
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getc $3
    vmad $1, $9, $23, $23
    getr $10
    vmad $2, $9, $24, $24
    getc $4
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    ldi $5, -512($5)
    vmad $4, $7, $14, $14
    ldl $0, 64($19)
    vmad $2, $7, $12, $12
    vldc $1, 0($5)
    vmad $4, $8, $22, $22
    vstd $11, 0($16)
    vmad $2, $10, $28, $28
    vstd $15, 128($16)
    vmad $3, $8, $21, $21
    vstd $20, 160($16)
    vmad $3, $10, $29, $29
    vstd $23, 256($16)
    vmad $3, $9, $25, $25
    vstd $24, 288($16)
    vmad $4, $9, $26, $26
    vstd $13, 64($16)
    vmad $4, $10, $30, $30
    vstd $27, 384($16)
    vstd $14, 96($16)
    ldi $6, 96($6)
    vstd $12, 32($16)
    ldi $17, 3($31)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldc $2, 32($5)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 6, $0
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, -56($19)
    vldc $3, 64($5)
    addl $19, $0, $19
    getr $7
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gg_gp:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    ldi $19, 8($19)
    vmad $2, $7, $12, $12
    ldder $7, 0($6)
    vmad $4, $8, $22, $22
    ldi $17, 3($31)
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gg_gp:
    getc $2
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getc $3
    vmad $1, $9, $23, $23
    getr $10
    vmad $2, $9, $24, $24
    getc $4
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    ldi $6, 96($6)
    vmad $4, $7, $14, $14
    ldl $0, 64($19)
    vmad $2, $7, $12, $12
    ldder $7, 0($6)
    vmad $4, $8, $22, $22
    vstd $11, 0($16)
    vmad $2, $10, $28, $28
    vstd $15, 128($16)
    vmad $3, $8, $21, $21
    vstd $20, 160($16)
    vmad $3, $10, $29, $29
    vstd $23, 256($16)
    vmad $3, $9, $25, $25
    vstd $24, 288($16)
    vmad $4, $9, $26, $26
    vstd $13, 64($16)
    vmad $4, $10, $30, $30
    vstd $27, 384($16)
    vstd $14, 96($16)
    ldi $5, -512($5)
    vstd $12, 32($16)
    ldi $17, 3($31)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    ldder $8, 32($6)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 6, $0
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, -56($19)
    ldder $9, 64($6)
    addl $19, $0, $19
    getc $1
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gg_pp:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    ldder $7, 0($6)
    vmad $4, $8, $22, $22
    ldi $19, 8($19)
    vmad $2, $10, $28, $28
    ldi $17, 3($31)
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gg_pp:
    getc $2
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getc $3
    vmad $1, $9, $23, $23
    getr $10
    vmad $2, $9, $24, $24
    getc $4
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    ldi $5, -512($5)
    vmad $4, $7, $14, $14
    ldi $6, 96($6)
    vmad $2, $7, $12, $12
    ldl $0, 64($19)
    vmad $4, $8, $22, $22
    vldc $1, 0($5)
    vmad $2, $10, $28, $28
    ldder $7, 0($6)
    vmad $3, $8, $21, $21
    vstd $11, 0($16)
    vmad $3, $10, $29, $29
    vstd $15, 128($16)
    vmad $3, $9, $25, $25
    vstd $20, 160($16)
    vmad $4, $9, $26, $26
    vstd $23, 256($16)
    vmad $4, $10, $30, $30
    vstd $24, 288($16)
    vstd $13, 64($16)
    ldi $17, 3($31)
    vstd $27, 384($16)
    vstd $14, 96($16)
    vstd $12, 32($16)
    vstd $22, 224($16)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    ldder $8, 32($6)
    cmpeq $16, $0, $0
    vldc $2, 32($5)
    sll $0, 6, $0
    vldd $11, 0($16)
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, -56($19)
    vldc $3, 64($5)
    addl $19, $0, $19
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gg:
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    ldi $19, 8($19)
    vmad $4, $7, $14, $14
    ldi $17, 3($31)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pg_gg:
    vldc $4, 96($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldl $0, 64($19)
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
    ldl $18, 0($19)
    vmad $4, $7, $14, $14
    ldi $5, 128($5)
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    ldi $19, -56($19)
    vstd $28, 416($16)
    ldi $5, -512($5)
    vstd $21, 192($16)
    ldi $6, 96($6)
    vstd $29, 448($16)
    ldi $17, 3($31)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldd $11, 0($16)
    cmpeq $16, $0, $0
    vldd $15, 128($16)
    sll $0, 6, $0
    vldd $20, 160($16)
    addl $19, $0, $19
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gp:
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    ldi $19, 8($19)
    vmad $4, $7, $14, $14
    ldi $17, 3($31)
    vmad $2, $7, $12, $12
    ldder $7, 0($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pg_gp:
    vldc $4, 96($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldi $6, 96($6)
    vmad $3, $7, $13, $13
    ldl $0, 64($19)
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    ldl $18, 0($19)
    vmad $2, $7, $12, $12
    ldder $7, 0($6)
    vmad $4, $8, $22, $22
    vstd $15, 128($16)
    vmad $2, $10, $28, $28
    vstd $20, 160($16)
    vmad $3, $8, $21, $21
    vstd $23, 256($16)
    vmad $3, $10, $29, $29
    vstd $24, 288($16)
    vmad $3, $9, $25, $25
    vstd $13, 64($16)
    vmad $4, $9, $26, $26
    vstd $27, 384($16)
    vmad $4, $10, $30, $30
    vstd $14, 96($16)
    vstd $12, 32($16)
    ldi $5, 128($5)
    vstd $22, 224($16)
    ldi $19, -56($19)
    vstd $28, 416($16)
    ldi $5, -512($5)
    vstd $21, 192($16)
    ldi $17, 3($31)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    ldder $8, 32($6)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 6, $0
    vldd $15, 128($16)
    addl $19, $0, $19
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldder $9, 64($6)
    getc $1
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_gg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    ldi $19, 8($19)
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    ldi $17, 3($31)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    ldi $6, 8($6)
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gp_gg:
    ldder $10, 96($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    ldl $0, 64($19)
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    ldl $18, 0($19)
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $23, 256($16)
    vmad $2, $10, $28, $28
    vstd $20, 160($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    ldi $6, 8($6)
    vstd $28, 416($16)
    ldi $19, -56($19)
    vstd $21, 192($16)
    ldi $5, -512($5)
    vstd $29, 448($16)
    ldi $6, 96($6)
    vstd $25, 320($16)
    ldi $17, 3($31)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldd $11, 0($16)
    cmpeq $16, $0, $0
    vldd $15, 128($16)
    sll $0, 6, $0
    vldd $20, 160($16)
    addl $19, $0, $19
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_pg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    ldi $19, 8($19)
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    ldi $17, 3($31)
    vmad $4, $8, $22, $22
    ldi $6, 8($6)
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gp_pg:
    ldder $10, 96($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    ldi $5, -512($5)
    vmad $1, $10, $27, $27
    ldl $0, 64($19)
    vmad $4, $7, $14, $14
    vldc $1, 0($5)
    vmad $2, $7, $12, $12
    vstd $11, 0($16)
    vmad $4, $8, $22, $22
    vstd $15, 128($16)
    vmad $2, $10, $28, $28
    vstd $20, 160($16)
    vmad $3, $8, $21, $21
    vstd $23, 256($16)
    vmad $3, $10, $29, $29
    vstd $24, 288($16)
    vmad $3, $9, $25, $25
    vstd $13, 64($16)
    vmad $4, $9, $26, $26
    vstd $27, 384($16)
    vmad $4, $10, $30, $30
    vstd $14, 96($16)
    vstd $12, 32($16)
    ldi $6, 8($6)
    vstd $22, 224($16)
    ldi $6, 96($6)
    vstd $28, 416($16)
    ldi $17, 3($31)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldc $2, 32($5)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 6, $0
    vldd $15, 128($16)
    vldd $20, 160($16)
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    ldl $18, 0($19)
    ldi $19, -56($19)
    vldc $3, 64($5)
    addl $19, $0, $19
    getr $7
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pp_gg:
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $5, 128($5)
    vmad $3, $7, $13, $13
    ldi $19, 8($19)
    vmad $1, $10, $27, $27
    ldi $17, 3($31)
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    ldi $6, 8($6)
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pp_gg:
    vldc $4, 96($5)
    vmad $1, $8, $15, $15
    ldder $10, 96($6)
    vmad $2, $8, $20, $20
    vmad $1, $9, $23, $23
    ldl $0, 64($19)
    vmad $2, $9, $24, $24
    vstd $11, 0($16)
    vmad $3, $7, $13, $13
    ldl $18, 0($19)
    vmad $1, $10, $27, $27
    ldi $5, 128($5)
    vmad $4, $7, $14, $14
    ldi $6, 8($6)
    vmad $2, $7, $12, $12
    vstd $15, 128($16)
    vmad $4, $8, $22, $22
    vstd $20, 160($16)
    vmad $2, $10, $28, $28
    vstd $23, 256($16)
    vmad $3, $8, $21, $21
    vstd $24, 288($16)
    vmad $3, $10, $29, $29
    vstd $13, 64($16)
    vmad $3, $9, $25, $25
    vstd $27, 384($16)
    vmad $4, $9, $26, $26
    vstd $14, 96($16)
    vmad $4, $10, $30, $30
    vstd $12, 32($16)
    vstd $22, 224($16)
    ldi $19, -56($19)
    vstd $28, 416($16)
    ldi $5, -512($5)
    vstd $21, 192($16)
    ldi $6, 96($6)
    vstd $29, 448($16)
    ldi $17, 3($31)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    vldd $11, 0($16)
    cmpeq $16, $0, $0
    vldd $15, 128($16)
    sll $0, 6, $0
    vldd $20, 160($16)
    addl $19, $0, $19
    vldd $23, 256($16)
    vldd $24, 288($16)
    vldd $13, 64($16)
    vldd $27, 384($16)
    vldd $14, 96($16)
    vldd $12, 32($16)
    vldd $22, 224($16)
    vldd $28, 416($16)
    vldd $21, 192($16)
    vldd $29, 448($16)
    vldd $25, 320($16)
    vldd $26, 352($16)
    vldd $30, 480($16)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
    .size gemm_gemm_f64_n_row_row_16x16x4_4_16_16, . - gemm_gemm_f64_n_row_row_16x16x4_4_16_16
