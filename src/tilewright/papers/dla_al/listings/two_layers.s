  smove $1, #0           ; inputs in the vector scratchpad
  smove $2, #128         ; elements of a segment
  smove $3, #0           ; weights in the matrix scratchpad
  smove $4, #128 * 128   ; weights of a segment
  smove $5, #256         ; sums
  smove $6, #512         ; partial sums
  smove $7, #fc1_weight
  smove $8, #fc1_bias
  smove $9, #fc1_out
  smove $10, #2          ; segments of outputs
out1:
  vsv $5, $2, $5, $5
  smove $11, #fc1_inp
  smove $12, #8          ; segments of inputs
in1:
  vload $1, $2, $11, #0
  mload $3, $4, $7, #0
  mmv $6, $2, $3, $1, $2
  vav $5, $2, $5, $6
  sadd $11, $2
  sadd $7, $4
  ssub $12, #1
  cb $12, in1
  vload $1, $2, $8, #0
  vav $5, $2, $5, $1
  vstore $5, $2, $9, #0
  sadd $8, $2
  sadd $9, $2
  ssub $10, #1
  cb $10, out1
  vsv $5, $2, $5, $5
  smove $7, #fc2_weight
  smove $11, #fc1_out
  smove $12, #2
in2:
  vload $1, $2, $11, #0
  mload $3, $4, $7, #0
  mmv $6, $2, $3, $1, $2
  vav $5, $2, $5, $6
  sadd $11, $2
  sadd $7, $4
  ssub $12, #1
  cb $12, in2
  smove $8, #fc2_bias
  vload $1, $2, $8, #0
  vav $5, $2, $5, $1
  smove $9, #fc2_out
  vstore $5, $2, $9, #0
