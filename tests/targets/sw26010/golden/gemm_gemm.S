// gemm_gemm.S: C += A B on 8 x 8 cores, one routine per shape. Generated.
//
// void routine(const void *a, const void *b, void *c, void *workspace): $16 .. $19.
// Keeps $9 .. $15, $26, $29, $30; takes 928 bytes of stack.
// All cores call together; operands are aligned to vectors.
    .text

    .align 4
    .globl gemm_gemm_f64_n_row_row_16x16x4_4_16_16
    .type gemm_gemm_f64_n_row_row_16x16x4_4_16_16, @function
gemm_gemm_f64_n_row_row_16x16x4_4_16_16:
    ldi $0, -928($30)
    srl $0, 5, $0
    sll $0, 5, $0
    stl $26, 864($0)
    stl $29, 872($0)
    stl $30, 880($0)
    vstd $9, 640($0)
    vstd $10, 672($0)
    vstd $11, 704($0)
    vstd $12, 736($0)
    vstd $13, 768($0)
    vstd $14, 800($0)
    vstd $15, 832($0)
    ldi $30, 0($0)
    ldi $20, 0($19)
    ldi $19, 0($0)
    bsr $26, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh
    vldd $9, 640($30)
    vldd $10, 672($30)
    vldd $11, 704($30)
    vldd $12, 736($30)
    vldd $13, 768($30)
    vldd $14, 800($30)
    vldd $15, 832($30)
    ldl $26, 864($30)
    ldl $29, 872($30)
    ldl $30, 880($30)
    ret $26
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh:
    stl $26, 280($19)
    stl $29, 288($19)
    stl $30, 296($19)
    bsr $0, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_anchor
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_anchor:
    rcsr $1, 1
    ldi $23, 612($0)
    rcsr $2, 2
    ldi $24, 1008($0)
    stl $23, 312($19)
    ldi $25, 1396($0)
    stl $24, 320($19)
    ldi $23, 1788($0)
    ldi $24, 2172($0)
    stl $25, 328($19)
    stl $23, 336($19)
    ldi $25, 2576($0)
    stl $24, 344($19)
    ldi $23, 2976($0)
    ldi $24, 3376($0)
    stl $25, 360($19)
    stl $23, 376($19)
    ldi $25, 3768($0)
    stl $24, 384($19)
    ldi $23, 5120($0)
    ldi $24, 5380($0)
    stl $25, 408($19)
    stl $23, 440($19)
    ldi $25, 5632($0)
    stl $24, 448($19)
    ldi $23, 5888($0)
    ldi $24, 6136($0)
    cmpeq $2, 0, $3
    stl $25, 456($19)
    ldi $25, 6404($0)
    stl $23, 464($19)
    ldi $23, 6668($0)
    stl $24, 472($19)
    ldi $24, 6932($0)
    cmpeq $1, 0, $22
    addl $3, $3, $4
    cmpeq $2, 1, $3
    stl $25, 488($19)
    stl $23, 504($19)
    ldi $25, 7188($0)
    stl $24, 512($19)
    ldi $23, 4984($0)
    ldi $24, 4176($0)
    addl $22, $4, $22
    cmpeq $1, 1, $12
    addl $3, $3, $4
    stl $25, 536($19)
    ldi $25, 4840($0)
    stl $23, 592($19)
    ldi $23, 4700($0)
    stl $24, 600($19)
    ldi $24, 4552($0)
    addl $12, $4, $12
    stl $25, 584($19)
    stl $23, 576($19)
    ldi $25, 4264($0)
    stl $24, 568($19)
    ldi $23, 4360($0)
    ldi $24, 4452($0)
    s4addl $12, $22, $3
    stl $25, 608($19)
    s8addl $3, $19, $3
    stl $23, 616($19)
    cmpeq $1, 2, $13
    stl $24, 624($19)
    cmpeq $1, 3, $14
    ldl $4, 312($3)
    cmpeq $2, 2, $3
    cmpeq $1, 4, $15
    cmpeq $1, 5, $20
    cmpeq $1, 6, $21
    cmpeq $1, 7, $11
    ldi $5, 0($17)
    ldi $6, 0($16)
    stl $4, 0($19)
    ldi $16, 0($18)
    stl $4, 128($19)
    addl $3, $3, $4
    addl $13, $4, $13
    s4addl $13, $12, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    cmpeq $2, 3, $3
    stl $4, 8($19)
    stl $4, 136($19)
    addl $3, $3, $4
    addl $14, $4, $14
    s4addl $14, $13, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    cmpeq $2, 4, $3
    stl $4, 16($19)
    stl $4, 144($19)
    addl $3, $3, $4
    addl $15, $4, $15
    s4addl $15, $14, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    cmpeq $2, 5, $3
    stl $4, 24($19)
    stl $4, 152($19)
    addl $3, $3, $4
    addl $20, $4, $20
    s4addl $20, $15, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    cmpeq $2, 6, $3
    stl $4, 32($19)
    stl $4, 160($19)
    addl $3, $3, $4
    addl $21, $4, $21
    s4addl $21, $20, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    cmpeq $2, 7, $3
    stl $4, 40($19)
    stl $4, 168($19)
    addl $3, $3, $4
    addl $11, $4, $11
    s4addl $11, $21, $3
    s8addl $3, $19, $3
    ldl $4, 312($3)
    s4addl $22, $11, $3
    s8addl $3, $19, $3
    stl $4, 48($19)
    stl $4, 176($19)
    ldl $4, 440($3)
    s8addl $11, $19, $3
    stl $4, 56($19)
    ldl $4, 568($3)
    s8addl $22, $19, $3
    stl $4, 184($19)
    ldl $4, 600($3)
    ldi $3, 1($31)
    stl $3, 264($19)
    stl $4, 272($19)
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_row:
    ldl $18, 272($19)
    ldi $3, 0($16)
    ldi $3, 1536($3)
    stl $3, 256($19)
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_next_row:
    ldi $19, -192($19)
    ldi $5, 128($5)
    ldl $3, 264($19)
    ldi $6, -384($6)
    ldi $16, -1408($16)
    subl $3, 1, $3
    stl $3, 264($19)
    bne $3, gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_row
    ldl $26, 280($19)
    ldl $29, 288($19)
    ldl $30, 296($19)
    ret $26
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gg:
    vmad $1, $8, $15, $15
    vldc $4, 480($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $19, 8($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gg_loop:
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_gg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 120($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    ldl $18, 0($19)
    vmad $3, $7, $13, $13
    ldi $19, 8($19)
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_gg_loop:
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pp_gg:
    vmad $1, $8, $15, $15
    vldc $4, 480($5)
    vmad $2, $8, $20, $20
    ldder $10, 120($6)
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $19, 8($19)
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pp_gg_loop:
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
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
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 128($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 160($5)
    vmad $3, $9, $25, $25
    vldc $3, 192($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 224($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 256($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 288($5)
    vmad $3, $9, $25, $25
    vldc $3, 320($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 352($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 384($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 416($5)
    vmad $3, $9, $25, $25
    vldc $3, 448($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_pg:
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 120($6)
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
    vmad $4, $8, $22, $22
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_gp_pg_loop:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 128($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 160($5)
    vmad $3, $9, $25, $25
    vldc $3, 192($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 224($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 256($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 288($5)
    vmad $3, $9, $25, $25
    vldc $3, 320($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 352($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 384($5)
    vmad $2, $7, $12, $12
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    getr $7
    vmad $3, $10, $29, $29
    vldc $2, 416($5)
    vmad $3, $9, $25, $25
    vldc $3, 448($5)
    vmad $4, $9, $26, $26
    getr $8
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
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
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
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
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 40($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 72($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 104($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    ldder $7, 16($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 48($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 80($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 112($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    ldder $7, 24($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 56($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 88($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gp:
    vmad $1, $8, $15, $15
    vldc $4, 480($5)
    vmad $2, $8, $20, $20
    getr $9
    vmad $1, $9, $23, $23
    ldl $18, 0($19)
    vmad $2, $9, $24, $24
    ldi $19, 8($19)
    vmad $3, $7, $13, $13
    getr $10
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_step_pg_gp_loop:
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
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 40($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 72($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 104($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    ldder $7, 16($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 48($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 80($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    getc $2
    vmad $2, $8, $20, $20
    ldder $10, 112($6)
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    getc $4
    vmad $4, $7, $14, $14
    vmad $2, $7, $12, $12
    ldder $7, 24($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 56($6)
    vmad $3, $10, $29, $29
    getc $1
    vmad $3, $9, $25, $25
    vmad $4, $9, $26, $26
    ldder $9, 88($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    ret $18
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
    vmad $3, $8, $21, $21
    ldder $8, 32($6)
    vmad $3, $10, $29, $29
    vldc $2, 32($5)
    vmad $3, $9, $25, $25
    vldc $3, 64($5)
    vmad $4, $9, $26, $26
    ldder $9, 64($6)
    vmad $4, $10, $30, $30
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp:
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 96($5)
    vmad $2, $8, $20, $20
    ldder $10, 96($6)
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 128($5)
    vmad $2, $7, $12, $12
    ldder $7, 8($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 40($6)
    vmad $3, $10, $29, $29
    vldc $2, 160($5)
    vmad $3, $9, $25, $25
    vldc $3, 192($5)
    vmad $4, $9, $26, $26
    ldder $9, 72($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 224($5)
    vmad $2, $8, $20, $20
    ldder $10, 104($6)
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 256($5)
    vmad $2, $7, $12, $12
    ldder $7, 16($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 48($6)
    vmad $3, $10, $29, $29
    vldc $2, 288($5)
    vmad $3, $9, $25, $25
    vldc $3, 320($5)
    vmad $4, $9, $26, $26
    ldder $9, 80($6)
    vmad $4, $10, $30, $30
    vmad $1, $7, $11, $11
    vmad $1, $8, $15, $15
    vldc $4, 352($5)
    vmad $2, $8, $20, $20
    ldder $10, 112($6)
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vmad $1, $10, $27, $27
    vmad $4, $7, $14, $14
    vldc $1, 384($5)
    vmad $2, $7, $12, $12
    ldder $7, 24($6)
    vmad $4, $8, $22, $22
    vmad $2, $10, $28, $28
    vmad $3, $8, $21, $21
    ldder $8, 56($6)
    vmad $3, $10, $29, $29
    vldc $2, 416($5)
    vmad $3, $9, $25, $25
    vldc $3, 448($5)
    vmad $4, $9, $26, $26
    ldder $9, 88($6)
    vmad $4, $10, $30, $30
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
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
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
    vldc $1, 0($5)
    getr $7
    vldc $2, 32($5)
    vldc $3, 64($5)
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
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
    ldder $7, 0($6)
    ldder $8, 32($6)
    getc $1
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
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
    vldc $1, 0($5)
    ldder $7, 0($6)
    ldder $8, 32($6)
    vldc $2, 32($5)
    vldc $3, 64($5)
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_pg:
    vldc $4, 480($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    vstd $11, 0($16)
    vmad $3, $7, $13, $13
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_gp:
    ldder $10, 120($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
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
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_drain_pp:
    vldc $4, 480($5)
    vmad $1, $8, $15, $15
    ldder $10, 120($6)
    vmad $2, $8, $20, $20
    vmad $1, $9, $23, $23
    vstd $11, 0($16)
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
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
    ldl $0, 192($19)
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
    ldi $19, -64($19)
    vstd $28, 416($16)
    ldi $6, 128($6)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 7, $0
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
    ldl $18, 0($19)
    ldi $19, 8($19)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pg_gg:
    vldc $4, 480($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldl $0, 192($19)
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
    ldi $19, -64($19)
    vmad $4, $7, $14, $14
    ldi $6, 128($6)
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
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 7, $0
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
    ldl $18, 0($19)
    ldi $19, 8($19)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gp_gg:
    ldder $10, 120($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    ldl $0, 192($19)
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    ldi $19, -64($19)
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
    ldi $6, 128($6)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 7, $0
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
    ldl $18, 0($19)
    ldi $19, 8($19)
    getr $7
    getc $1
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pp_gg:
    vldc $4, 480($5)
    vmad $1, $8, $15, $15
    ldder $10, 120($6)
    vmad $2, $8, $20, $20
    vmad $1, $9, $23, $23
    ldl $0, 192($19)
    vmad $2, $9, $24, $24
    vstd $11, 0($16)
    vmad $3, $7, $13, $13
    ldi $19, -64($19)
    vmad $1, $10, $27, $27
    ldi $6, 128($6)
    vmad $4, $7, $14, $14
    getc $1
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
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldd $11, 0($16)
    sll $0, 7, $0
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
    ldl $18, 0($19)
    ldi $19, 8($19)
    getr $7
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gg
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
    ldl $0, 192($19)
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
    ldi $19, -64($19)
    vstd $28, 416($16)
    ldi $6, 128($6)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldc $1, 0($5)
    sll $0, 7, $0
    vldc $2, 32($5)
    addl $19, $0, $19
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
    vldc $3, 64($5)
    getr $7
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_gp_pg:
    ldder $10, 120($6)
    vmad $1, $8, $15, $15
    getc $2
    vmad $1, $9, $23, $23
    getc $3
    vmad $2, $8, $20, $20
    getc $4
    vmad $2, $9, $24, $24
    vmad $3, $7, $13, $13
    ldl $0, 192($19)
    vmad $1, $10, $27, $27
    vstd $11, 0($16)
    vmad $4, $7, $14, $14
    ldi $19, -64($19)
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
    ldi $6, 128($6)
    vstd $28, 416($16)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldc $1, 0($5)
    sll $0, 7, $0
    vldc $2, 32($5)
    addl $19, $0, $19
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
    vldc $3, 64($5)
    getr $7
    getr $8
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pg
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
    ldl $0, 192($19)
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
    ldi $6, 128($6)
    vstd $28, 416($16)
    ldi $19, -64($19)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    ldder $7, 0($6)
    sll $0, 7, $0
    ldder $8, 32($6)
    addl $19, $0, $19
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
    ldder $9, 64($6)
    getc $1
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_block_pg_gp:
    vldc $4, 480($5)
    vmad $1, $8, $15, $15
    getr $9
    vmad $2, $8, $20, $20
    getr $10
    vmad $1, $9, $23, $23
    vmad $2, $9, $24, $24
    ldl $0, 192($19)
    vmad $3, $7, $13, $13
    vstd $11, 0($16)
    vmad $1, $10, $27, $27
    ldi $6, 128($6)
    vmad $4, $7, $14, $14
    ldi $19, -64($19)
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
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    ldder $7, 0($6)
    sll $0, 7, $0
    ldder $8, 32($6)
    addl $19, $0, $19
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
    ldder $9, 64($6)
    getc $1
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_gp
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
    ldl $0, 192($19)
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
    ldi $6, 128($6)
    vstd $28, 416($16)
    ldi $19, -64($19)
    vstd $21, 192($16)
    vstd $29, 448($16)
    vstd $25, 320($16)
    vstd $26, 352($16)
    vstd $30, 480($16)
    ldi $16, 512($16)
    cmpeq $16, $0, $0
    vldc $1, 0($5)
    sll $0, 7, $0
    ldder $7, 0($6)
    addl $19, $0, $19
    ldder $8, 32($6)
    vldc $2, 32($5)
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
    vldc $3, 64($5)
    ldder $9, 64($6)
    br gemm_gemm_f64_n_row_row_16x16x4_4_16_16_mesh_loop_pp
    .size gemm_gemm_f64_n_row_row_16x16x4_4_16_16, . - gemm_gemm_f64_n_row_row_16x16x4_4_16_16
