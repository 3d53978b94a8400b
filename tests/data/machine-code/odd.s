# Instructions whose bytes and FLOP are not those of their registers' width.
odd:
        vaddpd (%rax){1to8}, %zmm1, %zmm2
        vaddps (%rax){1to4}, %xmm1, %xmm2
        vmulpd (%rax), %zmm1, %zmm2{%k1}{z}
        vfmadd231ps (%rax), %ymm1, %ymm2
        vfnmsub132sd (%rax), %xmm1, %xmm2
        vgatherdpd %ymm3, (%rax,%xmm1,8), %ymm2
        vgatherqps %xmm3, (%rax,%ymm1,4), %xmm2
        vgatherdpd (%rax,%ymm1,8), %zmm2{%k1}
        vcvtdq2pd (%rax), %ymm2
        vcvtps2pd (%rax), %ymm2
        vbroadcastsd (%rax), %ymm2
        vbroadcastf128 (%rax), %ymm2
        vextractf128 $1, %ymm2, (%rax)
        vmovddup (%rax), %xmm2
        movhpd (%rax), %xmm2
        movss %xmm2, (%rax)
        addsd (%rax), %xmm2
        haddpd %xmm1, %xmm2
        sqrtpd %xmm1, %xmm2
        vmaxpd %ymm1, %ymm2, %ymm3
        addl $1, (%rax)
        cmpl $1, (%rax)
        movb $1, (%rax)
        lea 8(%rax,%rcx,4), %rdx
        prefetcht0 (%rax)
        vmovntpd %zmm1, (%rax)
        cvtsi2sdl (%rax), %xmm1
        vpinsrd $1, (%rax), %xmm1, %xmm2
        imul (%rax), %rcx
        ret
