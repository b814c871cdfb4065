# SPDX-License-Identifier: GPL-2.0-only
# All ways into the kernel and the one way out.
#
# Invariants. In user mode gs is the user's and KERNEL_GS_BASE points to the Cpu structure; swapgs
# follows every entry from user mode and precedes every exit, nothing else changes it. An entry from
# user mode saves the registers into the thread's frame (FRAME_TOP is the byte behind its ss word),
# then takes the processor's kernel stack from its top. The frame of an alien thread is memory of its
# chief too, who may write to it at any moment: nothing is read back from here except through the Rust
# exit path, which checks it. So what the hardware pushes goes to the kernel stack (TSS.rsp0 is its top)
# and is copied, and the error code is read there. Interrupts are off throughout.
#
# What the exits rely on, so that no SYSRET and no IRET faults in the kernel (only an ip could make
# them: Intel's SYSRET to an address that is not canonical is a #GP in the kernel, with the user's
# stack): leave_to_user takes ip, cs, flags and sp from the Cpu structure, where `entry::load` put
# them after it checked each once; fast.s says what it checks. ss is always the user's, and sp may
# be anything. NT is clear here: the gates clear it, and SYSCALL's mask.

.macro save_below_di
    .irp register, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
    push \register
    .endr
.endm

# Registers from and to a frame.
.macro load frame, registers:vararg
    .irp register, \registers
    mov \register, [\frame + FRAME_\register]
    .endr
.endm
.macro save frame, registers:vararg
    .irp register, \registers
    mov [\frame + FRAME_\register], \register
    .endr
.endm

# What a user left in registers takes no part in what the kernel does, not even speculatively. rdi is the
# server's argument.
.macro clear registers:vararg
    .irp register, \registers
    xor \register, \register
    .endr
.endm
.macro clear_registers
    clear esi, eax, ecx, edx, ebx, ebp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d
.endm

# An exception or interrupt leaves the flags as they were but for IF, TF and NT: DF would make string instructions run
# backwards, AC would switch SMAP off. Only on a stack of the kernel's own.
.macro clear_flags
    push 2
    popfq
.endm

# After SYSCALL, with rsp = the thread's frame: everything, with the words that an interrupt would have pushed. rcx = user
# ip, r11 = user flags, all others the user's but rsp, which is in the scratch word. Leaves rsp at r15's place.
.macro begin_frame code_selector
    lea rsp, [rsp + {FRAME_TOP}]
    push USER_SS
    push qword ptr gs:[CPU_scratch]
    push r11
    push \code_selector
    push rcx
.endm
.macro save_after_syscall
    begin_frame USER_CS
    push rax
    push rdi
    save_below_di
.endm

# Entry with nothing saved: rsp = the thread's frame.
.macro find_frame
    mov rsp, gs:[CPU_current]
    mov rsp, [rsp + {THREAD_FRAME}]
.endm

# All is saved: serves it in Rust.
.macro slow_path server, clear
    mov rsp, gs:[CPU_stack]
    .if \clear
    clear_registers
    .endif
    call \server
    jmp leave_to_user
.endm

# The entry where the short ways through IPC (fast.s) are switched off.
.balign 16
.globl slow_syscall_entry
slow_syscall_entry:
    swapgs
    mov gs:[CPU_scratch], rsp
    find_frame
    save_after_syscall
    slow_path {slow_syscall}, 1

# rax = frame to leave with; the exit words in the Cpu structure were checked.
.balign 16
.globl leave_to_user
leave_to_user:
    load rax, r15, r14, r13, r12, rbp, rbx, r10, r9, r8, rdx, rsi, rdi
    cmp dword ptr gs:[CPU_exit_sysret], 0
    je 1f
    load rax, rax
    mov rcx, gs:[CPU_exit_ip]
    mov r11, gs:[CPU_exit_flags]
    mov rsp, gs:[CPU_exit_sp]
    swapgs
    sysretq
1:  load rax, r11, rcx, rax
    mov rsp, gs:[CPU_stack]
    push USER_SS
    push qword ptr gs:[CPU_exit_sp]
    push qword ptr gs:[CPU_exit_flags]
    push qword ptr gs:[CPU_exit_cs]
    push qword ptr gs:[CPU_exit_ip]
    swapgs
    iretq

# SYSCALL from 32-bit code: not offered, an undefined instruction.
.balign 16
.globl compat_entry
compat_entry:
    swapgs
    mov gs:[CPU_scratch], rsp
    find_frame
    begin_frame USER_CS32
    push {NO_CALL}
    push rdi
    mov edi, VECTOR_UD
    save_below_di
    jmp without_error_code

# Stack: vector, error code, ip, cs, flags, sp, ss, from user mode; all registers are the interrupted program's. To the
# thread's frame, except the vector, which is in rdi, and the error code, which stays on the stack:
# orig_ax says that this is no call. rsp is at r15's place then.
.macro save_after_vector
    swapgs
    # Not even speculatively may the kernel use the user's gs, here or in kernel_entry.
    lfence
    xchg rdi, [rsp]
    push rax
    mov rax, rsp
    find_frame
    lea rsp, [rsp + {FRAME_TOP}]
    .irp offset, 56, 48, 40, 32, 24
    push qword ptr [rax + \offset]
    .endr
    push {NO_CALL}
    push qword ptr [rax + 8]
    mov rax, [rax]
    save_below_di
.endm

# Where the hardware pushes the error code, from the top of the kernel's stack: below ss, sp, flags,
# cs, ip.
.set ERROR_CODE, -48

common_entry:
    test byte ptr [rsp + 24], 3
    jz kernel_entry
    save_after_vector
user_exception:
    mov rsp, gs:[CPU_stack]
    clear_flags
    clear_registers
    # The way here from user mode made ss null. AMD's SYSRET loads the selector alone: a program
    # that later runs 32-bit code would have no stack there (Linux: X86_BUG_SYSRET_SS_ATTRS).
    # SYSCALL loads all of ss, as this does.
    mov eax, KERNEL_SS
    mov ss, eax
    mov rsi, [rsp + ERROR_CODE]
    call {exception}
    jmp leave_to_user
# The same where the kernel's stack has no error code.
without_error_code:
    mov rsp, gs:[CPU_stack]
    mov qword ptr [rsp + ERROR_CODE], 0
    jmp user_exception

# An interrupt in one of the kernel's few windows, or a bug. Same stack.
kernel_entry:
    lfence
    xchg rdi, [rsp]
    save_below_di
    lea rsi, [rsp - FRAME_r15]
    mov rbp, rsp
    and rsp, -16
    call {kernel_exception}
    mov rsp, rbp
    .irp register, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
    pop \register
    .endr
    add rsp, 8
    iretq

# #DB has a stack of its own (MOV SS delays it across SYSCALL, so it may hit before swapgs).
# In the kernel it is dropped.
.balign 16
.globl debug_entry
debug_entry:
    push 0
    push VECTOR_DB
    test byte ptr [rsp + 24], 3
    jz 1f
    save_after_vector
    jmp without_error_code
1:  push rax
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
    mov edi, VECTOR_DF
    jmp 3f
.balign 16
.globl fatal_mc
fatal_mc:
    push 0
    mov edi, VECTOR_MC
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
