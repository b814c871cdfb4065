# SPDX-License-Identifier: GPL-2.0-only
# All ways into the kernel and the one way out.
#
# Invariants. In user mode gs is the user's and KERNEL_GS_BASE points to the Cpu structure; swapgs
# follows every entry from user mode and precedes every exit, nothing else changes it. An entry from
# user mode saves the registers into the thread's frame (FRAME_TOP is the byte behind its ss word),
# then takes the processor's kernel stack from its top. The frame of a foreign thread is memory of its
# chief too, who may write to it at any moment: nothing is read back from here except through the Rust
# exit path, which checks it. So what the hardware pushes goes to the kernel stack (TSS.rsp0 is its top)
# and is copied. Interrupts are off throughout.

.macro save_below_di
    push rsi
    push rdx
    push rcx
    push rax
    push r8
    push r9
    push r10
    push r11
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
.endm

# What a user left in registers takes no part in what the kernel does, not even speculatively. rdi is the
# server's argument.
.macro clear_registers
    xor esi, esi
    xor eax, eax
    xor ecx, ecx
    xor edx, edx
    xor ebx, ebx
    xor ebp, ebp
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    xor r12d, r12d
    xor r13d, r13d
    xor r14d, r14d
    xor r15d, r15d
.endm

# An exception or interrupt leaves the flags as they were but for IF, TF and NT: DF would make string instructions run
# backwards, AC would switch SMAP off. Only on a stack of the kernel's own.
.macro clear_flags
    push 2
    popfq
.endm

# After SYSCALL: to the thread's frame, with the words that an interrupt would have pushed. rcx = user ip,
# r11 = user flags, all others the user's.
.macro enter_by_syscall code_selector
    swapgs
    mov gs:[{CPU_SCRATCH}], rsp
    mov rsp, gs:[{CPU_FRAME_TOP}]
    push {USER_SS}
    push qword ptr gs:[{CPU_SCRATCH}]
    push r11
    push \code_selector
    push rcx
.endm

# The whole entry, up to the call of what serves it.
.macro serve_syscall server, clear=1
    enter_by_syscall {USER_CS}
    push rax
    push rdi
    save_below_di
    lea rdi, [rsp - {FRAME_R15}]
    mov rsp, gs:[{CPU_STACK}]
    .if \clear
    clear_registers
    .endif
    call \server
.endm

# The entry where the short ways through IPC are switched off.
.balign 16
.globl long_syscall_entry
long_syscall_entry:
    serve_syscall {long_syscall}
    jmp leave_to_user

# The entry that clears no registers, to see what clearing costs.
.balign 16
.globl uncleared_syscall_entry
uncleared_syscall_entry:
    serve_syscall {syscall}, 0
    jmp leave_to_user

.balign 16
.globl syscall_entry
syscall_entry:
    serve_syscall {syscall}

# rax = frame to leave with; the exit words in the Cpu structure were checked.
.balign 16
.globl leave_to_user
leave_to_user:
    mov r15, [rax + {FRAME_R15}]
    mov r14, [rax + {FRAME_R14}]
    mov r13, [rax + {FRAME_R13}]
    mov r12, [rax + {FRAME_R12}]
    mov rbp, [rax + {FRAME_BP}]
    mov rbx, [rax + {FRAME_BX}]
    mov r10, [rax + {FRAME_R10}]
    mov r9, [rax + {FRAME_R9}]
    mov r8, [rax + {FRAME_R8}]
    mov rdx, [rax + {FRAME_DX}]
    mov rsi, [rax + {FRAME_SI}]
    mov rdi, [rax + {FRAME_DI}]
    cmp dword ptr gs:[{CPU_EXIT_SYSRET}], 0
    je 1f
    mov rax, [rax + {FRAME_AX}]
    mov rcx, gs:[{CPU_EXIT_IP}]
    mov r11, gs:[{CPU_EXIT_FLAGS}]
    mov rsp, gs:[{CPU_EXIT_SP}]
    swapgs
    sysretq
1:  mov r11, [rax + {FRAME_R11}]
    mov rcx, [rax + {FRAME_CX}]
    mov rax, [rax + {FRAME_AX}]
    mov rsp, gs:[{CPU_STACK}]
    push {USER_SS}
    push qword ptr gs:[{CPU_EXIT_SP}]
    push qword ptr gs:[{CPU_EXIT_FLAGS}]
    push qword ptr gs:[{CPU_EXIT_CS}]
    push qword ptr gs:[{CPU_EXIT_IP}]
    swapgs
    iretq

# SYSCALL from 32-bit code: not offered, an undefined instruction.
.balign 16
.globl compat_entry
compat_entry:
    enter_by_syscall {USER_CS32}
    push 0
    push rdi
    mov edi, {VECTOR_UD}
    jmp user_exception

# Stack: vector, error code, ip, cs, flags, sp, ss. All registers are the interrupted program's.
common_entry:
    test byte ptr [rsp + 24], 3
    jz kernel_entry
move_to_frame:
    swapgs
    # Not even speculatively may the kernel use the user's gs, here or in kernel_entry.
    lfence
    xchg rdi, [rsp]
    push rax
    mov rax, rsp
    mov rsp, gs:[{CPU_FRAME_TOP}]
    push qword ptr [rax + 56]
    push qword ptr [rax + 48]
    push qword ptr [rax + 40]
    push qword ptr [rax + 32]
    push qword ptr [rax + 24]
    push qword ptr [rax + 16]
    push qword ptr [rax + 8]
    mov rax, [rax]
# rdi = vector, the user's is saved; rsp in the frame.
user_exception:
    save_below_di
    mov rsp, gs:[{CPU_STACK}]
    clear_flags
    clear_registers
    call {exception}
    jmp leave_to_user

# An interrupt in one of the kernel's few windows, or a bug. Same stack.
kernel_entry:
    lfence
    xchg rdi, [rsp]
    save_below_di
    lea rsi, [rsp - {FRAME_R15}]
    mov rbp, rsp
    and rsp, -16
    call {kernel_exception}
    mov rsp, rbp
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    pop r11
    pop r10
    pop r9
    pop r8
    pop rax
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    add rsp, 8
    iretq

# #DB has a stack of its own (MOV SS delays it across SYSCALL, so it may hit before swapgs).
# In the kernel it is dropped.
.balign 16
.globl debug_entry
debug_entry:
    push 0
    push {VECTOR_DB}
    test byte ptr [rsp + 24], 3
    jnz move_to_frame
    push rax
    xor eax, eax
    mov dr6, rax
    pop rax
    add rsp, 16
    iretq

# An NMI carries no work here; it must not look at gs.
.balign 16
.globl nmi_entry
nmi_entry:
    iretq

# #DF and #MC: nothing can go on. gs may be the user's: the handler does not use it.
.balign 16
.globl fatal_df
fatal_df:
    mov edi, {VECTOR_DF}
    jmp 3f
.balign 16
.globl fatal_mc
fatal_mc:
    push 0
    mov edi, {VECTOR_MC}
3:  clear_flags
    mov rsi, rsp
    and rsp, -16
    call {fatal}
    ud2

# One stub a vector, 16 bytes apart. Vectors with a hardware error code push none.
.balign 16
.globl vector_stubs
vector_stubs:
.set vector, 0
.rept 256
    .balign 16
    .if vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30
    .else
    push 0
    .endif
    push vector
    jmp common_entry
    .set vector, vector + 1
.endr

# idle(): interrupts on until one came. sti takes effect after hlt has begun.
.balign 16
.globl wait_for_interrupt
wait_for_interrupt:
    sti
    hlt
    cli
    ret

# poll(): lets one waiting interrupt in.
.balign 16
.globl poll_interrupts
poll_interrupts:
    sti
    nop
    cli
    ret
