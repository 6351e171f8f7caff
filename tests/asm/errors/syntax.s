	addl $1 $2
	addl $1,
	ldw $1, 4(5)
	.ascii "no end
	.long 'a
	.long 1 +
	.long 012
	.long 99999999999999999999
	.long 1 @ 2
	.ascii "\q"
label
	: nop
