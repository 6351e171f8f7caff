	vmda $1, $2, $3, $4
	addl $1, 300, $2
	addl $1, $2
	vmad $1, 5, $2, $3
	ldw $1, $2
	ldw $32, 0($1)
	ldw $spp, 0($1)
	vstd $1, 40000($2)
	putr $1, 16
	vinsw $1, $2, 8, $3
	addl $1, "x", $2
	addl $1, 1.5, $2
	addl $1, @object, $2
	bsr
	mov $1
	mov 5, $2
