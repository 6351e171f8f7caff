# Of a wrong line the labels are kept, and nothing else.
    .set size, 5)
    ldi $1, size($31)
here: nop 1
    br here
.if 0
there: .elseif 1 1
    nop
.endif
    br there
