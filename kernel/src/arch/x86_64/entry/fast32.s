# SPDX-License-Identifier: GPL-2.0-only
# The fast paths of 32-bit code, which enters by `int 0x80`; fast.s has the rules and the macros.
# Served are
# - call, and reply with open wait, between native threads, of at most three words and a label,
# - a system call of an alien thread with thread-local descriptors, as Linux's programs have them,
#   to a 64-bit handler in an open wait. fast.s has the reply (reply_to_32_bits).
# Every other `int 0x80` goes to Rust. Beside them, turn_entry turns thread-local segments.
#
# Native threads' message registers stay where they are: eax = call number and flags, ebx = tag,
# esi:edi = the partner, edx ecx ebp = words. All of the caller's other registers are its stack
# pointer, which the hardware has pushed with ip and flags, and r8 to r15, which 32-bit code does
# not have. So nothing else has to be saved. The hardware's words are the exit words (cpu.rs): IRET
# takes the partner's from there.
#
# IRET does not fault: cs and ss are the user's 32-bit ones, ip is in its segment, and flags are
# masked. No selector can fault: ds and es of both threads are the user's data, fs and gs are null.
#
# An alien thread's selectors and descriptors leave the processor with it, and come back with it:
# nobody else finds them there.

.set FRAME_sp, FRAME_rsp

# The values of ds, es, fs and gs together, in a frame.
.set PLAIN_SELECTORS, USER_SS << 16 | USER_SS
# The bits of a selector of which one is set where it is not null.
.set NOT_NULL, 0xfffc

# Check: the thread rbx is in this wait on this CPU, and has the flag SMALL alone. Uses rax.
.macro must_wait_small kind, refused
    mov rax, gs:[CPU_\kind\()_wait]
    bts rax, {STATE_WORD_SMALL_BIT}
    cmp rax, [rbx + {THREAD_STATE_WORD}]
    jne \refused
.endm

# The entry for `int 0x80`. `pcids` and `supervisor`: as in fast_paths. It takes the lock on a
# uniprocessor, too. Stack: ip, cs, flags, sp, ss. Live: all registers are the interrupted
# program's; the upper halves of those that 32-bit code has are not looked at.
.macro int80_path name, pcids, supervisor
symbol \name, 64
    test byte ptr [rsp + 8], 3
    jz .Lint80_slow_\name
    swapgs
    # The kernel must not use the user's gs, not even speculatively.
    lfence
    mov rsp, gs:[CPU_current]
    # The caller is native, runs 32-bit code, and has no other flag.
    cmp dword ptr [rsp + THREAD_flags], SMALL
    jne .Lint80_other_\name
    # What the path uses itself: r9d = call number, r13d = tag, r14d and r15d = words.
    mov r9d, eax
    mov r13d, ebx
    mov r14d, edx
    mov r15d, ecx
    take_lock 1, rsp, .Lint80_unlocked_\name
    # The caller still has no other flag: see take_lock.
    cmp dword ptr [rsp + THREAD_flags], SMALL
    jne .Lint80_refused_\name
    # There are no items, and no more words than registers.
    cmp r13d, 3
    ja .Lint80_refused_\name
    # The partner exists.
    mov edi, edi
    mov eax, esi
    shl rax, 32
    or rdi, rax
    look_up .Lint80_refused_\name
    # It is in the caller's clan, and may run next; its selectors and the caller's are plain.
    must_be_same_clan .Lint80_refused_\name
    must_run_next .Lint80_refused_\name
    must_share_selectors rbx, .Lint80_refused_\name
    cmp rax, PLAIN_SELECTORS
    jne .Lint80_refused_\name
    # Its ip, whatever lthread_ex_regs made it, is in its segment: IRET would fault otherwise. The
    # lowest byte of what it reaches is log2 of the size.
    mov cl, [rbx + THREAD_reach]
    mov eax, 1
    shl rax, cl
    mov ecx, [rbx + FRAME_ip]
    cmp rcx, rax
    jae .Lint80_refused_\name
    # Which call it is.
    mov eax, r9d
    and eax, ANY_SEND_TIMEOUT
    cmp eax, {CALL}
    jne .Lint80_reply_\name
    # The partner accepts a message from any thread.
    must_wait_small open, .Lint80_refused_\name
    # POINT OF NO RETURN: nothing below can fail.
    inc dword ptr [rbx + THREAD_waiters]
    mov eax, gs:[CPU_closed_wait]
    mov [rsp + {THREAD_STATE_WORD}], eax
    mov [rsp + THREAD_partner], rdi
    # The caller is blocked in its call. What matters of its registers is saved.
.Lint80_commit_\name:
    mov [rsp + FRAME_orig_ax], r9
    .irp word, ip, flags, sp
    mov rax, gs:[CPU_exit_\word]
    mov [rsp + FRAME_\word], rax
    .endr
    # The message's label is in the UTCBs.
    mov rax, [rsp + THREAD_utcb]
    mov eax, [rax + {UTCB_LABEL}]
    mov rdx, [rbx + THREAD_utcb]
    mov [rdx + {UTCB_LABEL}], rax
    # The partner's call is over: its results are no SYSCALL's.
    mov qword ptr [rbx + FRAME_orig_ax], {NO_CALL}
    change_thread rsp, \pcids, \supervisor
    change_reach 1
    mov eax, [rbx + FRAME_ip]
    mov gs:[CPU_exit_ip], rax
    mov qword ptr gs:[CPU_exit_cs], USER_CS32
    mov eax, [rbx + FRAME_flags]
    and eax, FLAGS_USER
    or eax, FLAGS_FIXED
    mov gs:[CPU_exit_flags], rax
    mov rax, [rbx + FRAME_sp]
    mov gs:[CPU_exit_sp], rax
    # The sender's id, the tag, the words, the status; and nothing else of the sender's.
    clear r8d, r9d, r10d, r11d, r12d
    mov rdi, [rsp + THREAD_id]
    mov rsi, rdi
    shr rsi, 32
    mov ebx, r13d
    mov edx, r14d
    mov ecx, r15d
    xor eax, eax
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
    mov rsp, gs:[CPU_address]
    add rsp, CPU_exit_ip
    swapgs
    iretq

# Reply with open wait. Live: rsp = caller's TCB, rbx = partner's, eax = call number without the
# kind of the send timeout, and what the path uses.
.Lint80_reply_\name:
    cmp eax, REPLY_AND_WAIT
    jne .Lint80_refused_\name
    # The caller will block: no notification, interrupt or sender may be pending for its open wait.
    cmp byte ptr [rsp + THREAD_maybe_pending], 0
    jne .Lint80_refused_\name
    # The partner is in a closed wait for the caller.
    must_wait_small closed, .Lint80_refused_\name
    mov rax, [rsp + THREAD_id]
    cmp rax, [rbx + THREAD_partner]
    jne .Lint80_refused_\name
    # POINT OF NO RETURN: nothing below can fail.
    dec dword ptr [rsp + THREAD_waiters]
    enter_open_wait 1
    jmp .Lint80_commit_\name

# The slow path, with all registers as they were. Where the lock was taken already, here or for an
# alien thread, it was not a pair's: a thread with one of these flags is in none.
.Lint80_refused_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lint80_unlocked_\name:
    mov eax, r9d
    mov ebx, r13d
    mov ecx, r15d

# All registers are saved; orig_ax says that this is no call. Live: rsp = caller's TCB, all others
# the interrupted program's.
.Lint80_other_\name:
    mov rsp, [rsp + THREAD_frame]
    lea rsp, [rsp + {FRAME_TOP}]
    .irp word, ss, sp, flags, cs, ip
    push qword ptr gs:[CPU_exit_\word]
    .endr
    push {NO_CALL}
    push rdi
    save_below_di
    lea rsp, [rsp - FRAME_r15]
    mov rbp, gs:[CPU_current]
    # Perhaps it is an alien thread with descriptors, and no other flags than for an FPU state and a
    # window.
    mov edx, [rbp + THREAD_flags]
    and edx, ~(FPU | SMALL)
    cmp edx, ALIEN | DEBUG_TLS
    jne .Lint80_saved_\name
    # The message, as in fast_paths.
    mov r8, rax
    mov r9, [rsp + FRAME_ip]
    mov r10d, [rbp + THREAD_frame_index]
    xor r12d, r12d
    mov rsi, {INT80_TAG}
    take_lock 1, rbp, .Lint80_saved_\name
    # It has no breakpoints.
    mov r15, [rbp + THREAD_extra]
    cmp qword ptr [r15 + {EXTRA_DR7}], 0
    jne .Lint80_alien_refused_\name
    mov rdi, [rbp + THREAD_handler]
    look_up .Lint80_alien_refused_\name
    # The handler may run next, SYSRET can return to it, and it has no selectors.
    must_run_next .Lint80_alien_refused_\name
    test dword ptr [rbx + FRAME_flags], FLAGS_NEED_IRET
    jnz .Lint80_alien_refused_\name
    cmp qword ptr [rbx + FRAME_segments], 0
    jne .Lint80_alien_refused_\name
    # The handler accepts a message from any thread, and has no FPU state.
    must_be_in_open_wait 1, 0, .Lint80_alien_refused_\name
    # POINT OF NO RETURN: nothing below can fail.
    mov [rsp + FRAME_orig_ax], r8
    # The frame is its chief's memory, too: selectors that will be loaded are kept elsewhere.
    save_selectors "r15 + EXTRA_selectors"
    mov rax, [r15 + EXTRA_selectors]
    mov [rsp + FRAME_segments], rax
    rdfsbase rax
    swapgs
    rdgsbase rdx
    mov gs, r12d
    swapgs
    .irp register, ds, es, fs
    mov \register, r12d
    .endr
    # Bases as the thread sees them: in a window less its base, or those of null selectors, which
    # may be anything, zero (switch.rs: show_own_bases).
    mov rcx, [rbp + THREAD_reach]
    test rcx, rcx
    jz .Lint80_own_bases_\name
    xor cl, cl
    sub eax, ecx
    test word ptr [r15 + EXTRA_selectors + 4], NOT_NULL
    cmovz rax, r12
    sub edx, ecx
    test word ptr [r15 + EXTRA_selectors + 6], NOT_NULL
    cmovz rdx, r12
.Lint80_own_bases_\name:
    mov [rsp + FRAME_fs_base], rax
    mov [rsp + FRAME_gs_base], rdx
    # The handler has no descriptors.
    .irp place, 0, 8, 16
    mov gs:[{CPU_TLS} + \place], r12
    .endr
    mov byte ptr gs:[CPU_debug_tls_loaded], r12b
    change_reach
    # The exception made ss null: see user_exception in entry.s.
    mov eax, KERNEL_SS
    mov ss, eax
    # A handler in supervisor mode gets no flags of its own. Bases are saved already: what
    # change_bases saves goes to the kernel stack.
    mov rsp, gs:[CPU_stack]
    clear_flags
    sub rsp, 8 * FRAME_WORDS
    leave_to_handler 1, \pcids, \supervisor, 0, 1

# The slow path, with all registers saved.
.Lint80_alien_refused_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lint80_saved_\name:
    mov edi, VECTOR_INT80
    jmp without_error_code

# The slow path from ring 0, with all registers as they were.
.Lint80_slow_\name:
    push 0
    push VECTOR_INT80
    jmp common_entry
.endm

int80_path int80_entry, 0, 0
int80_path pcid_int80_entry, 1, 0
int80_path supervisor_int80_entry, 0, 1
int80_path supervisor_pcid_int80_entry, 1, 1

# Which one is used: fill_idt (tables.rs) counts them, as those for page faults.
.pushsection .rodata
symbol int80_entries, 8
    .quad int80_entry, pcid_int80_entry, supervisor_int80_entry, supervisor_pcid_int80_entry
.popsection

# The entry for #GP. A thread in a window used a thread-local segment that covers all, perhaps, on
# the side of its base that it does not show: it shows that from now on (small.rs: turn). Rust
# serves every other #GP, and one that comes again at the same instruction: it counts these, and
# loads the task's ports, which the instruction may have used. No selector that is loaded can fault:
# both sides of a descriptor are valid, or neither, and then the processor has no such selector,
# because a thread whose descriptors another CPU changes is loaded again. Null ones may lose their
# bases: 32-bit code does not see them.
# Stack: error code, ip, cs, flags, sp, ss. Live: all registers are the interrupted program's.
symbol turn_entry, 64
    test byte ptr [rsp + 16], 3
    jz .Lturn_in_ring_0
    swapgs
    # The kernel must not use the user's gs, not even speculatively.
    lfence
    .irp register, rax, rbx, rcx, rdx
    push \register
    .endr
    # Error codes name selectors.
    cmp qword ptr [rsp + 32], 0
    jne .Lturn_unlocked
    # It runs 32-bit code with descriptors, and has no other flags than int80_path serves.
    mov rbx, gs:[CPU_current]
    mov eax, [rbx + THREAD_flags]
    and eax, ~(FPU | ALIEN)
    cmp eax, SMALL | DEBUG_TLS
    jne .Lturn_unlocked
    take_lock 1, rbx, .Lturn_unlocked
    # It is another instruction than last time.
    mov rcx, [rsp + 40]
    cmp rcx, [rbx + THREAD_turned_at]
    je .Lturn_refused
    # IRET does not fault: the ip is in its segment. It is not, if that was the exception.
    lsl eax, word ptr [rsp + 48]
    cmp ecx, eax
    jbe .Lturn
.Lturn_refused:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lturn_unlocked:
    .irp register, rdx, rcx, rbx, rax
    pop \register
    .endr
    swapgs
.Lturn_in_ring_0:
    push VECTOR_GP
    jmp common_entry

# POINT OF NO RETURN: nothing below can fail. If no descriptor has two sides, this changes nothing,
# and Rust serves the exception when it comes again. Live: rbx = TCB, rcx = its ip; turn_entry has
# saved these, rax and rdx.
.Lturn:
    mov rdx, [rbx + THREAD_extra]
    mov dword ptr [rbx + THREAD_turns], 1
    mov [rbx + THREAD_turned_at], rcx
    xor byte ptr [rbx + THREAD_down], 1
    .irp place, 0, 8, 16
    mov rax, [rdx + EXTRA_shown + \place]
    mov rcx, [rdx + EXTRA_other + \place]
    mov [rdx + EXTRA_other + \place], rax
    mov [rdx + EXTRA_shown + \place], rcx
    mov gs:[{CPU_TLS} + \place], rcx
    .endr
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
    swapgs
    # The processor reads the descriptors again.
    .irp register, ds, es, fs, gs
    mov eax, \register
    mov \register, eax
    .endr
    .irp register, rdx, rcx, rbx, rax
    pop \register
    .endr
    # A stack of the thread's own could be one of 16 bits, where IRET leaves the kernel's upper half
    # of esp.
    mov qword ptr [rsp + 40], USER_SS
    # The error code.
    add rsp, 8
    iretq
