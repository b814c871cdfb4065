# SPDX-License-Identifier: GPL-2.0-only
# The entries into the kernel for SYSCALL, exceptions and interrupts, and the exit of the slow path.
# The fast paths (fast.s) have entries and exits of their own. Interrupts are off throughout, except
# in wait_for_interrupt and poll_interrupts. No lock is held at an entry from user mode; Rust takes
# and releases it.
#
# Supervisor mode: with `supervisor` on the command line a task's threads may run at ring
# 0. Frames and entries take them for user mode: gs, and the selectors in a frame, are as there. An
# entry knows them by their ip, which is not in the kernel's text (from_ring_0), and an exit by
# Thread::supervisor or the exit words. All gates then name the entry stack (tables.rs: ANY_LEVEL).
#
# GS: in user mode gs is the user's, and KERNEL_GS_BASE points to the Cpu structure. swapgs follows
# every entry from user mode and precedes every exit; in between GS points to the Cpu structure,
# except where both bases are accessed.
#
# Frames: an entry from user mode saves the registers into the thread's frame (FRAME_TOP is the byte
# after its ss word), then switches to the top of the CPU's kernel stack. The frame of an alien
# thread is its chief's memory too, which may change at any time: the slow path reads it back only
# in Rust, which checks what it loads. So the hardware pushes to the kernel stack (TSS.rsp0 is its
# top), the words are copied from there, and the error code is read there.
#
# Exits: no SYSRET and no IRET faults in the kernel. Only an ip could make them fault: Intel's
# SYSRET to a non-canonical address raises #GP in the kernel, with the user's stack. leave_to_user
# takes ip, cs, flags and sp from the Cpu structure, where `switch::load` put them after it checked
# each once; fast.s says what it checks. ss is always the user's, and sp may be anything. NT is
# clear: the gates clear it, and so does SYSCALL's mask.

# The kernel stack is below the Cpu structure.
.set CPU_stack, CPU_address

# Begins code that is known by its name outside, too.
.macro symbol name, alignment=16
.balign \alignment
.globl \name
\name:
.endm

# Pushes the general registers of a frame that are below rdi.
.macro save_below_di
    .irp register, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
    push \register
    .endr
.endm

# Loads registers from a frame, and saves them there.
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

# Clears registers, so that the kernel does not use a user's values, not even speculatively.
# clear_registers leaves rdi, which is the argument of the Rust function.
.macro clear registers:vararg
    .irp register, \registers
    xor \register, \register
    .endr
.endm
.macro clear_registers
    clear esi, eax, ecx, edx, ebx, ebp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d
.endm

# Sets the flags to their initial value. An exception or interrupt changes only IF, TF and NT: a
# user's DF would make string instructions run backwards, AC would switch SMAP off. rsp must be a
# stack of the kernel: the word below it is overwritten.
.macro clear_flags
    push 2
    popfq
.endm

# Pushes the words of an interrupt, which IRET takes: ss, sp, flags, cs, ip. r11 has the flags.
.macro push_interrupt_words sp, cs, ip, ss=USER_SS
    push \ss
    push qword ptr \sp
    push r11
    push \cs
    push \ip
.endm

# Saves all registers after SYSCALL, and the words that an interrupt would have pushed. `call`: the
# word at orig_ax. Live: rsp = the thread's frame, CPU_scratch = user rsp, rcx = user ip, r11 = user
# flags; all others are the user's. Leaves rsp at r15's place in the frame.
.macro save_after_syscall code_selector=USER_CS, call=rax
    lea rsp, [rsp + {FRAME_TOP}]
    push_interrupt_words gs:[CPU_scratch], \code_selector, rcx
    push \call
    push rdi
    save_below_di
.endm

# rsp = frame of the current thread. Uses no other register: none is saved yet.
.macro find_frame
    mov rsp, gs:[CPU_current]
    mov rsp, [rsp + THREAD_frame]
.endm

# Calls the Rust function `server` on the kernel stack, which returns the frame to leave with.
# `clear`: clears registers first. `supervisor`: threads may run in supervisor mode. All registers
# are saved. Live: nothing.
.macro slow_path server, clear, supervisor=0
    mov rsp, gs:[CPU_stack]
    .if \clear
    clear_registers
    .endif
    call \server
    .if \supervisor
    jmp leave_to_any
    .else
    jmp leave_to_user
    .endif
.endm

# The entry for SYSCALL where the fast paths (fast.s) are switched off.
# Live: rcx = user ip, r11 = user flags, all others the user's.
symbol slow_syscall_entry
    swapgs
    mov gs:[CPU_scratch], rsp
    find_frame
    save_after_syscall
    slow_path {slow_syscall}, 1

# Returns to user mode. The exit words in the Cpu structure were checked (switch.rs: load); the
# other registers in the frame may have any value. Live: rax = frame to leave with.
symbol leave_to_user
    load rax, r15, r14, r13, r12, rbp, rbx, r10, r9, r8, rdx, rsi, rdi
    cmp dword ptr gs:[CPU_exit_sysret], 0
    je .Lleave_by_iret
    load rax, rax
    mov rcx, gs:[CPU_exit_ip]
    mov r11, gs:[CPU_exit_flags]
    mov rsp, gs:[CPU_exit_sp]
    swapgs
    sysretq

# SYSRET would lose rcx and r11, or cannot restore the flags or cs.
# Live: rax = frame; r11, rcx and rax are not loaded yet.
.Lleave_by_iret:
    load rax, r11, rcx, rax
    mov rsp, gs:[CPU_address]
    add rsp, CPU_exit_ip
    swapgs
    iretq

# The same where threads may run in supervisor mode. A native one after its system call returns by a
# jump, as on the fast paths (fast.s: resume_native), which is no change of mode, and restores no
# flags: not with TF or RF.
# Live: rax = frame to leave with.
leave_to_any:
    cmp dword ptr gs:[CPU_exit_cs], KERNEL_CS
    jne leave_to_user
    mov rcx, gs:[CPU_current]
    cmp dword ptr [rcx + THREAD_flags], 0
    jne leave_to_user
    cmp qword ptr [rax + FRAME_orig_ax], {NO_CALL}
    je leave_to_user
    test dword ptr gs:[CPU_exit_flags], FLAGS_NEED_IRET
    jnz leave_to_user
    mov rcx, gs:[CPU_exit_ip]
    load rax, r15, r14, r13, r12, rbp, rbx, r10, r9, r8, rdx, rsi, rdi, rsp, rax
    swapgs
    jmp supervisor_exit

# SYSCALL from 32-bit code is not offered: it raises #UD, as an undefined instruction does.
# Live: rcx = user ip, r11 = user flags, all others the user's.
symbol compat_entry
    swapgs
    mov gs:[CPU_scratch], rsp
    find_frame
    save_after_syscall USER_CS32, {NO_CALL}
    mov edi, VECTOR_UD
    jmp without_error_code

# Saves all registers, after an exception or interrupt from user mode, into the thread's frame.
# Stack: vector, error code, ip, cs, flags, sp, ss. Live: all registers are the interrupted
# program's. Afterwards rdi = vector, and rsp is at r15's place in the frame. The error code stays
# on the kernel stack. orig_ax says that this is no call.
.macro save_after_vector
    swapgs
    # The kernel must not use the user's gs, not even speculatively, here or in kernel_entry.
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

# Place of the error code that the hardware pushes, from CPU_stack: above it lie, from the word that
# save_after_vector pushes on, vector, error code, ip, cs, flags, sp, ss.
.set ERROR_CODE, 16

# Goes to `kernel` if the kernel was interrupted, at ring 0: always, if no thread may be in
# supervisor mode. Otherwise it was such a thread, or supervisor_exit: the words say user mode from
# here on. A thread's ip never lies in the kernel's text, and the instructions that have no kernel's
# gs any more are in supervisor_exit, after all other text (link.ld). Stack: vector, error code, ip,
# cs, flags, sp, ss.
.macro from_ring_0 kernel
    test dword ptr [{words_given}], {SUPERVISOR_TASKS}
    jz \kernel
    cmp qword ptr [rsp + 16], offset supervisor_exit
    jae .Lsupervisor_\@
    cmp qword ptr [rsp + 16], offset _text
    jae \kernel
.Lsupervisor_\@:
    mov qword ptr [rsp + 24], USER_CS
    mov qword ptr [rsp + 48], USER_SS
.endm

# The entry of all vectors without an entry of their own. Stack: vector, error code, ip, cs, flags,
# sp, ss. Live: all registers are the interrupted program's.
common_entry:
    # Bits 0 and 1 of cs: the privilege level that was interrupted.
    test byte ptr [rsp + 24], 3
    jz .Lring_0
.Lfrom_user:
    save_after_vector
# Serves an exception or interrupt from user mode. All registers are saved. Live: rdi = vector; the
# error code is on the kernel stack.
user_exception:
    mov rsp, gs:[CPU_stack]
    clear_flags
    clear_registers
    # The exception from user mode made ss null. AMD's SYSRET loads the selector alone, not the
    # descriptor: a program that later runs 32-bit code would have no stack there (Linux:
    # X86_BUG_SYSRET_SS_ATTRS). SYSCALL loads all of ss, and so does this.
    mov eax, KERNEL_SS
    mov ss, eax
    mov rsi, [rsp + ERROR_CODE]
    call {exception}
    jmp leave_to_user
# As user_exception, for vectors that have pushed no error code on the kernel stack: it is zero.
# Live: rdi = vector.
without_error_code:
    mov rsp, gs:[CPU_stack]
    mov qword ptr [rsp + ERROR_CODE], 0
    jmp user_exception

.Lring_0:
    from_ring_0 kernel_entry
    jmp .Lfrom_user

# An interrupt or exception in the kernel: an interrupt in wait_for_interrupt or poll_interrupts;
# anything else is a bug. Whoever calls those two expects that a call changes registers, so only
# rbx is saved here, and Rust keeps the others that a call must keep. Stack: as at common_entry.
# Live: all registers are the interrupted code's.
kernel_entry:
    lfence
    push rbx
    mov rbx, rsp
    lea rdi, [rsp + 8]
    # If the gate named the entry stack, above the kernel's own, Rust runs below the interrupted
    # rsp. The words stay above: no interrupt is served while another one is.
    cmp rsp, [rdi + 40]
    cmova rsp, [rdi + 40]
    and rsp, -16
    call {kernel_exception}
    mov rsp, rbx
    pop rbx
    add rsp, 16
    iretq

# Resumes a thread in supervisor mode after its SYSCALL. All its registers but ip and flags are
# loaded, and gs is its own; sti has the effect of its flags, and no interrupt comes before its
# first instruction, unless an NMI came here: then that finds the thread here, and not the kernel.
# Live: rcx = ip, all others the thread's.
.pushsection .supervisor_exit, "ax"
symbol supervisor_exit, 1
    sti
    jmp rcx
.popsection

# #DB has a stack of its own (IST): MOV SS delays it across SYSCALL, so it may hit before swapgs and
# before rsp is the kernel's. In the kernel it is dropped: DR6 is cleared, gs is not used.
# Stack and live: as at common_entry.
debug_entry:
    test byte ptr [rsp + 24], 3
    jnz .Ldebug_user
    from_ring_0 .Ldrop_debug
.Ldebug_user:
    save_after_vector
    jmp without_error_code
# Live: all registers are the interrupted kernel code's; gs may be the user's.
.Ldrop_debug:
    push rax
    xor eax, eax
    mov dr6, rax
    pop rax
    add rsp, 16
    iretq

# An NMI is ignored. It has a stack of its own, and must not use gs, which may be the user's.
symbol nmi_entry
    iretq

# #DF and #MC are fatal. They have a stack of their own. gs may be the user's: the Rust function
# does not use it. Stack: as at common_entry.
fatal_entry:
    clear_flags
    mov rdi, rsp
    and rsp, -16
    call {fatal}
    ud2

# One stub for each vector, 16 bytes apart. It pushes zero where the hardware pushes no error code.
symbol vector_stubs
.set vector, 0
.rept 256
    .balign 16
    .if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30)
    push 0
    .endif
    push vector
    .if vector == VECTOR_DB
    jmp debug_entry
    .elseif vector == VECTOR_DF || vector == VECTOR_MC
    jmp fatal_entry
    .else
    jmp common_entry
    .endif
    .set vector, vector + 1
.endr

# Halts until an interrupt was served (sched.rs: choose). sti takes effect after the next
# instruction, so no interrupt is served between the two, which would leave the CPU halted. No lock
# is held.
symbol wait_for_interrupt
    sti
    hlt
    cli
    ret

# Serves pending interrupts (switch.rs: poll). nop is the instruction after which sti takes effect.
# The caller has all locks.
symbol poll_interrupts
    sti
    nop
    cli
    ret
