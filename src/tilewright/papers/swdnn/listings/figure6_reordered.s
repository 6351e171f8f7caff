# swDNN Fig. 6, right: a 4 x 4 register block of C += A B over n steps, software-pipelined.
# A: $1-$4, B: $7-$10, C: $11-$18 and $20-$27, pointers $5 and $6, counter $28, its bound $19.
# 5 cycles lead in, 17 cycles per step, 16 cycles for the last step; the bound is n - 1.
  lddec $7, 0($6)
  vldr $1, 0($5)
  vldr $2, 32($5)
  vldr $3, 64($5)
  vldr $4, 96($5)
  addl $5, 128, $5
loop:
  vfmadd $1, $7, $11
  lddec $8, 8($6)
  vfmadd $2, $7, $12
  lddec $9, 16($6)
  vfmadd $3, $7, $13
  lddec $10, 24($6)
  vfmadd $4, $7, $14
  addl $6, 32, $6
  vfmadd $1, $8, $15
  addl $28, 1, $28
  vfmadd $2, $8, $16
  cmpeq $28, $19, $0
  vfmadd $3, $8, $17
  vfmadd $4, $8, $18
  vfmadd $1, $9, $20
  vfmadd $2, $9, $21
  vfmadd $3, $9, $22
  vfmadd $4, $9, $23
  lddec $7, 0($6)
  vfmadd $1, $10, $24
  vldr $1, 0($5)
  vfmadd $2, $10, $25
  vldr $2, 32($5)
  vfmadd $3, $10, $26
  vldr $3, 64($5)
  vfmadd $4, $10, $27
  vldr $4, 96($5)
  addl $5, 128, $5
  beq $0, loop
  vfmadd $1, $7, $11
  lddec $8, 8($6)
  vfmadd $2, $7, $12
  lddec $9, 16($6)
  vfmadd $3, $7, $13
  lddec $10, 24($6)
  vfmadd $4, $7, $14
  vfmadd $1, $8, $15
  vfmadd $2, $8, $16
  vfmadd $3, $8, $17
  vfmadd $4, $8, $18
  vfmadd $1, $9, $20
  vfmadd $2, $9, $21
  vfmadd $3, $9, $22
  vfmadd $4, $9, $23
  vfmadd $1, $10, $24
  vfmadd $2, $10, $25
  vfmadd $3, $10, $26
  vfmadd $4, $10, $27
