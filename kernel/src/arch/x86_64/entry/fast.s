# SPDX-License-Identifier: GPL-2.0-only
# The short ways through IPC: SYSCALL enters here.
#
# The cases: call, and reply and wait for anybody, between native threads; an alien thread's system call to a handler that
# waits for anybody, its own message to it, or its program's entry; a handler that resumes an alien thread and waits for
# anybody again; a page fault, and its pager's answer with one page, which Rust maps (with the registers cleared); and
# lthread_ex_regs about an FPU state, which Rust exchanges likewise. Each first
# only looks (it may use what is saved already: rax rcx rdx rbx rbp r11 r15); where anything is out of the ordinary, the long
# way in Rust does all of it. From the point of no return on nothing can fail. The outcome is the same either way: the suite
# runs with the short ways and without them (`nofast` on the command line).
#
# Message words never leave their registers, and no address is made of them: they are left to the receiver as they are.
# An address is made of a user's value in one place, `look_up`, where it is masked. There is no indirect jump. So clearing
# registers against speculation is left to the long way, which begins when all is saved.
#
# rsp = the frame of the caller, until the last instructions; for a native thread its TCB, which begins with its frame.
# There is no stack: interrupts are off, and what cannot be masked has stacks of its own (entry.s).
#
# A native thread's calls are the kernel's; an alien one's are messages to its handler.
# THREAD_STATE_WORD is eight bytes that are compared and written at once (thread.rs: state_word): state,
# open wait, number of the processor, zero, and four bytes of flags. A message is rdi (sender), rsi
# (tag), and the words in r8 r9 r10 r12 r13 r14; further words are in the UTCBs. No instruction here
# can fault: TCBs, UTCBs, frames and the Cpu structure are always mapped, and an ip or base that a
# user may have chosen is loaded only after a look at it. The lock is given back before the user's
# registers are loaded: another processor that wants something of this thread then sends an
# interrupt, which comes in user mode.

# rbx = TCB of the thread with the id in rdi, if it was looked for lately. Uses rax.
.macro look_up unknown
    imul eax, edi, LOOKUP_FACTOR
    shr eax, LOOKUP_SHIFT
    cmp gs:[CPU_lookup_cache + rax * 8], rdi
    jne \unknown
    mov rbx, gs:[CPU_lookup_cache + rax * 8 + {LOOKUP_THREADS}]
.endm

# rbx's priority is such that it runs next, with no time slice to start or end. Uses eax.
.macro must_run_next refused
    movzx eax, byte ptr [rbx + THREAD_priority]
    cmp eax, gs:[CPU_preemption_threshold]
    jb \refused
.endm

# Messages from the caller to rbx go straight: they are of one clan, or one is the other's chief. Where somebody far is
# waited for, or is pager or handler, a flag (CROSS_CLAN, CROSS_CLAN_HANDLER) keeps the thread from being here at all. Uses rax.
.macro must_be_same_clan refused
    mov rax, [rbx + THREAD_chief]
    cmp rax, [rsp + THREAD_chief]
    je 83f
    cmp rax, [rsp + THREAD_task]
    je 83f
    mov rax, [rsp + THREAD_chief]
    cmp rax, [rbx + THREAD_task]
    jne \refused
83:
.endm

# The selectors of the caller, saved here, are those of frame `to`. Nearly always all are null. Uses rax.
.macro must_share_selectors to, refused
    mov word ptr [rsp + FRAME_segments], ds
    mov word ptr [rsp + FRAME_segments + 2], es
    mov word ptr [rsp + FRAME_segments + 4], fs
    mov word ptr [rsp + FRAME_segments + 6], gs
    mov rax, [\to + FRAME_segments]
    cmp rax, [rsp + FRAME_segments]
    jne \refused
.endm

# The native thread rbx, which waits, can be left to by sysret. Its ip is a user's: SYSCALL saved
# it, and the last page of the user's half is never mapped (space.rs: map), so that it is
# canonical after each `syscall`; a flag (BAD_IP) tells if it was exchanged for one that no user can
# have. Its flags are those that SYSCALL saved: what a pager writes into a frame goes through
# `entry::load` before the thread waits again.
.macro must_take_sysret refused
    test dword ptr [rbx + FRAME_flags], FLAGS_NEED_IRET
    jnz \refused
.endm

# The thread rbx can be left to at once with a message. Uses rax.
.macro must_take_message refused
    must_run_next \refused
    must_take_sysret \refused
    must_share_selectors rbx, \refused
.endm

# The thread rbx waits for a message from anybody. `locks`: as `take_lock`; `fpu`: it may have an FPU state. Uses rax.
.macro must_wait_for_any locks, fpu, refused
    .if \fpu
    mov rax, [rbx + {THREAD_STATE_WORD}]
    btr rax, {STATE_WORD_FPU_BIT}
    cmp rax, gs:[CPU_open_wait]
    .elseif \locks
    mov rax, gs:[CPU_open_wait]
    cmp rax, [rbx + {THREAD_STATE_WORD}]
    .else
    cmp qword ptr [rbx + {THREAD_STATE_WORD}], {UP_OPEN_WAIT}
    .endif
    jne \refused
.endm

# The caller, a native thread, waits: an `open` wait or a `closed` one. Its flags stay. Uses rax.
.macro wait_for whom, alone, locks
    .if \locks
    mov eax, gs:[CPU_\whom\()_wait]
    mov [rsp + {THREAD_STATE_WORD}], eax
    .else
    mov dword ptr [rsp + {THREAD_STATE_WORD}], \alone
    .endif
.endm
.macro wait_for_any locks
    wait_for open, {UP_OPEN_WAIT}, \locks
    mov qword ptr [rsp + THREAD_partner], {ID_NIL}
.endm

# What a native thread's entry has not saved yet. Uses rax.
.macro save_message
    save rsp, rdi, rsi, r8, r9, r10, r12, r13, r14
    mov rax, [rsp + FRAME_orig_ax]
    save rsp, rax
.endm

# The message of rsp to rbx has words in the UTCB: the last check, and then they are copied. Uses rax rcx r11 r15.
.macro copy_words refused, back
    cmp esi, MAX_WORDS
    ja \refused
    mov r11, rdi
    mov r15, rsi
    lea ecx, [rsi - REGISTER_WORDS]
    mov rax, [rsp + {THREAD_UTCB}]
    lea rsi, [rax + {UTCB_WORDS}]
    mov rax, [rbx + {THREAD_UTCB}]
    lea rdi, [rax + {UTCB_WORDS}]
    rep movsq
    mov rsi, r15
    mov rdi, r11
    jmp \back
.endm

# The processor goes over to the thread rbx: its space, its ports, its time, from now on. `from`: the caller's TCB; `tags`:
# as `Pcids::enter`. Uses rax rdx.
.macro change_thread from, pcids
    mov byte ptr [rbx + THREAD_state], {STATE_READY}
    mov gs:[CPU_current], rbx
    mov gs:[CPU_loaded], rbx
    mov rax, [rbx + THREAD_space]
    cmp rax, gs:[CPU_space]
    je 81f
    mov gs:[CPU_space], rax
    .if \pcids
    mov rdx, rax
    shr rdx, {PAGE_SHIFT}
    and edx, {PCID_MASK}
    cmp rax, gs:[rdx * 8 + {CPU_PCIDS}]
    mov gs:[rdx * 8 + {CPU_PCIDS}], rax
    lea rax, [rax + rdx + 1]
    jne 80f
    bts rax, {PCID_NOFLUSH_BIT}
80:
    .endif
    mov cr3, rax
    # The first use of a port faults, and the kernel looks whose the bitmap is (tables.rs).
    mov word ptr gs:[{CPU_PORTS}], NO_PORTS
81: rdtsc
    shl rdx, 32
    or rax, rdx
    add [\from + THREAD_consumed], rax
    sub [rbx + THREAD_consumed], rax
.endm

# Saves the caller's bases, and loads `fs` and `gs`; ends what is done under the lock. gs is the user's afterwards. Uses
# rax, rdx.
.macro change_bases fs, gs, locks
    rdfsbase rax
    mov [rsp + FRAME_fs_base], rax
    wrfsbase \fs
    .if \locks
    mov rdx, gs:[CPU_address]
    .endif
    swapgs
    rdgsbase rax
    wrgsbase \gs
    mov [rsp + FRAME_gs_base], rax
    .if \locks
    mov byte ptr [rdx + {CPU_LOCK}], 0
    .endif
.endm

# To the native thread rbx, by sysret; message, sender, tag are in their registers. Uses all others.
.macro leave_to_native locks
    mov r11, [rbx + FRAME_fs_base]
    mov rcx, [rbx + FRAME_gs_base]
    change_bases r11, rcx, \locks
    xor eax, eax
    mov rcx, [rbx + FRAME_ip]
    mov r11, [rbx + FRAME_flags]
    load rbx, rdx, r15, rbp, rsp, rbx
    sysretq
.endm

# The FPU is off from now on. Uses rax.
.macro switch_fpu_off
    mov eax, {CR0_FPU_OFF}
    mov cr0, rax
    mov byte ptr gs:[CPU_fpu_off], 1
.endm

# If `fpu`, the FPU becomes as the thread rbx has it, whatever it is like before: on with its state, or off. XSAVE and XRSTOR
# cannot fault: each state is large enough and aligned, and what is in one was saved or checked (fpu.rs). They go through all
# components that are on. Uses rax rdx and another register.
.macro change_fpu fpu, other
    .if \fpu
    test dword ptr [rbx + THREAD_flags], FPU
    jz 88f
    clts
    mov byte ptr gs:[CPU_fpu_off], 0
    cmp rbx, gs:[CPU_fpu_owner]
    je 89f
    mov eax, {FPU_COMPONENTS}
    xor edx, edx
    mov \other, gs:[CPU_fpu_owner]
    test \other, \other
    jz 87f
    mov \other, [\other + THREAD_fpu]
    xsave64 [\other]
87: mov \other, [rbx + THREAD_fpu]
    xrstor64 [\other]
    mov gs:[CPU_fpu_owner], rbx
    jmp 89f
88: cmp byte ptr gs:[CPU_fpu_off], 0
    jne 89f
    switch_fpu_off
89:
    .endif
.endm

# Calls a function of Rust, which may refuse. Its arguments are in rdi, rsi, rdx. Keeps rsp rbx, and uses all others.
.macro ask_rust function, clear, refused
    mov rbp, rsp
    mov rsp, gs:[CPU_stack]
    .if \clear
    clear eax, ecx, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d
    .endif
    call \function
    mov rsp, rbp
    test al, al
    jz \refused
.endm

# The thread with TCB rbp stands still until rbx (id in rdi) answers its message: words, tag. `fpu`: rbx may have an FPU
# state.
.macro leave_to_handler locks, pcids, fpu
    mov byte ptr [rbp + THREAD_state], {STATE_FAULTED}
    mov [rbp + THREAD_partner], rdi
    inc dword ptr [rbx + THREAD_waiters]
    change_fpu \fpu, r15
    .if \fpu == 0
    test dword ptr [rbp + THREAD_flags], FPU
    jz 82f
    switch_fpu_off
82:
    .endif
    change_thread rbp, \pcids
    mov rdi, [rbp + THREAD_id]
    leave_to_native \locks
.endm

# This processor's lock, if it is free; who waits for it does so on the slow path, which begins by
# taking it. So where it is refused for another reason the lock is given back first. Uses ecx.
#
# What is read before: CPU_current, and of the caller's TCB flags, frame, frame_index and calls.
# Between these reads and the lock another processor may hold all locks and give them back, unseen.
# It then changes nothing of this list, nor CPU_loaded, unless it first settles this processor
# (lock.rs), and that waits until this one waits for the lock, on the slow path. The exceptions are
# flags that are set without that: CROSS_CLAN, where a sender with a virtual id queues, and DEBUG_TLS. A native
# thread's system calls look at them again, under the lock; to a thread that faults, which keeps its
# flags and waits for no message, and to the others neither flag means anything.
.macro take_lock locks, caller, busy
    .if \locks
    mov ecx, 1
    xchg byte ptr gs:[{CPU_LOCK}], cl
    test cl, cl
    jnz \busy
    .if {CHECKED}
    cmp gs:[CPU_loaded], \caller
    je 85f
    ud2
85:
    .endif
    .endif
.endm

# In the kernel for debugging: the time between the first look at a native thread's flags and the
# lock, once as long as was asked for (debugger/check.rs). Uses rbx rcx rbp r15.
.macro delay
    mov r15, rax
    mov rbp, rdx
    xor ecx, ecx
    xchg gs:[CPU_delay], rcx
    rdtsc
    shl rdx, 32
    lea rbx, [rax + rdx]
86: rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, rbx
    cmp rax, rcx
    jb 86b
    mov rax, r15
    mov rdx, rbp
.endm

# Call: the partner waits for anybody. `fpu`: caller and partner may have FPU states; `unlike`: where it goes on if that is
# what they differ in.
.macro call_way locks, pcids, fpu, unlike
    look_up 20f
    must_be_same_clan 20f
    must_take_message 20f
51: must_wait_for_any \locks, \fpu, \unlike
    cmp esi, REGISTER_WORDS
    ja 2f
    # Point of no return.
1:  inc dword ptr [rbx + THREAD_waiters]
    wait_for closed, {UP_CLOSED_WAIT}, \locks
    mov [rsp + THREAD_partner], rdi
    change_fpu \fpu, r15
    change_thread rsp, \pcids
    mov rdi, [rsp + THREAD_id]
    leave_to_native \locks
2:  copy_words 20f, 1b
.endm

# Reply and wait for anybody: the partner waits for the caller or for anybody, or for the end of its fault. The arguments are
# as of `call_way`.
.macro reply_way locks, clear, pcids, fpu, unlike
    look_up 20f
    must_run_next 20f
    cmp byte ptr [rsp + THREAD_maybe_pending], 0
    jne 20f
    mov rbp, [rsp + THREAD_id]
    mov rdx, [rbx + {THREAD_STATE_WORD}]
    .if \fpu
    btr rdx, {STATE_WORD_FPU_BIT}
    .endif
    cmp rdx, gs:[CPU_closed_wait]
    jne 15f
    must_take_sysret 20f
    must_share_selectors rbx, 20f
    cmp rbp, [rbx + THREAD_partner]
    jne 20f
    cmp esi, REGISTER_WORDS
    ja 12f
    # Point of no return.
11: dec dword ptr [rsp + THREAD_waiters]
14: wait_for_any \locks
    change_fpu \fpu, r15
    change_thread rsp, \pcids
    mov rdi, rbp
    leave_to_native \locks
12: copy_words 20f, 11b
13: mov rdx, [rbx + {THREAD_STATE_WORD}]
    .if \fpu
    btr rdx, {STATE_WORD_FPU_BIT}
    .endif
    cmp rdx, gs:[CPU_open_wait]
    jne \unlike
    must_be_same_clan 20f
    must_take_sysret 20f
    must_share_selectors rbx, 20f
    cmp esi, REGISTER_WORDS
    jbe 14b
    jmp 20f

# The partner is an alien thread whose handler the caller is. rbp = its frame, which is its chief's memory too: each
# word is read once.
15: test esi, {TAG_ITEMS}
    .if \locks
    jnz 22f
    .else
    jnz 17f
    .endif
    btr rdx, {STATE_WORD_FPU_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    jne 24f
26: cmp rbp, [rbx + THREAD_partner]
    jne 20f
    mov rbp, [rbx + {THREAD_FRAME}]
    must_share_selectors rbp, 20f
    cmp dword ptr [rbp + FRAME_cs], USER_CS
    jne 20f
    # sysret makes rcx of ip and r11 of the flags.
    mov rcx, [rbp + FRAME_ip]
    mov r11d, [rbp + FRAME_flags]
    mov rdx, [rbp + FRAME_fs_base]
    mov r15, [rbp + FRAME_gs_base]
    mov rax, rcx
    or rax, rdx
    or rax, r15
    shr rax, SPACE_SHIFT
    jnz 20f
    cmp rcx, [rbp + FRAME_rcx]
    jne 27f
    cmp r11, [rbp + FRAME_r11]
    jne 27f
    mov eax, r11d
    xor eax, FLAGS_FIXED
    test eax, {FLAGS_NOT_SYSRET}
    jnz 27f
    cmp rbx, gs:[CPU_fpu_owner]
    jne 23f
    # Point of no return.
    clts
    mov byte ptr gs:[CPU_fpu_off], 0
16: dec dword ptr [rsp + THREAD_waiters]
    wait_for_any \locks
    mov rdi, rdx
    change_thread rsp, \pcids
    change_bases rdi, r15, \locks
    load rbp, r15, r14, r13, r12, rbx, r10, r9, r8, rdx, rsi, rdi, rax, rsp, rbp
    sysretq
    # Another thread's FPU state is in the processor. That matters to a thread that has one. Where the caller has none the
    # FPU is off. The message's words are no longer needed.
23: .if \fpu == 0
    test dword ptr [rbx + THREAD_flags], FPU
    jz 16b
    .endif
    mov r8, rdx
    change_fpu 1, r9
    mov rdx, r8
    jmp 16b
    # Its own messages are answered as its other calls.
24: btr rdx, {STATE_WORD_DISPATCHED_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    je 26b
    jmp 13b

    .if \locks == 0
# The partner's page fault is answered with one page. Nobody can change a frame meanwhile: there are no other processors.
17: mov eax, esi
    and eax, {TAG_CONTENT}
    cmp eax, {TAG_ONE_PAGE}
    jne 20f
    btr rdx, {STATE_WORD_FPU_BIT}
    btr rdx, {STATE_WORD_DISPATCHED_BIT}
    bts rdx, {STATE_WORD_ALIEN_BIT}
    btr rdx, {STATE_WORD_OPEN_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    jne 20f
    cmp rbp, [rbx + THREAD_partner]
    jne 20f
    save_message
    mov rbp, [rbx + {THREAD_FRAME}]
    must_share_selectors rbp, 25f
    cmp dword ptr [rbp + FRAME_cs], USER_CS
    jne 25f
    mov rax, [rbp + FRAME_ip]
    or rax, [rbp + FRAME_fs_base]
    or rax, [rbp + FRAME_gs_base]
    shr rax, SPACE_SHIFT
    jnz 25f
    mov rdi, [rsp + THREAD_task]
    mov rsi, [rbx + THREAD_task]
    mov rdx, [rsp + {THREAD_UTCB}]
    ask_rust {map_page}, \clear, 25f
    # Point of no return.
    mov rbp, [rbx + {THREAD_FRAME}]
    mov rcx, [rbp + FRAME_ip]
    mov r11d, [rbp + FRAME_flags]
    mov rdx, [rbp + FRAME_fs_base]
    mov r15, [rbp + FRAME_gs_base]
    .endif

# The partner, with the frame rbp, gets all registers that are in it, by iret. Of these are rcx = ip, r11 = flags, rdx and
# r15 = bases at hand.
27: mov rdi, rdx
    .if \fpu == 0
    test dword ptr [rbx + THREAD_flags], FPU
    jz 28f
    .endif
    change_fpu 1, r9
28: and r11d, {FLAGS_USER}
    or r11d, FLAGS_FIXED
    dec dword ptr [rsp + THREAD_waiters]
    wait_for_any \locks
    mov r8, gs:[CPU_stack]
    change_thread rsp, \pcids
    change_bases rdi, r15, \locks
    mov rsp, r8
    push USER_SS
    push qword ptr [rbp + FRAME_rsp]
    push r11
    push USER_CS
    push rcx
    load rbp, r15, r14, r13, r12, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, rbp
    iretq
.endm

# The entry. `locks`: there are other processors. `clear`: the long way clears registers. `tags`: translations are tagged.
.macro fast_paths name, locks, clear, pcids
.balign 64
.globl \name
\name:
    swapgs
    mov gs:[CPU_scratch], rsp
    mov rsp, gs:[CPU_current]
    cmp dword ptr [rsp + THREAD_flags], 0
    jne 30f

# A native thread with nothing special. What a call does not name as a result is saved.
    mov [rsp + FRAME_ip], rcx
    mov rcx, gs:[CPU_scratch]
    mov [rsp + FRAME_rsp], rcx
    mov [rsp + FRAME_flags], r11
    mov qword ptr [rsp + FRAME_cs], USER_CS
    mov [rsp + FRAME_orig_ax], rax
    save rsp, rdx, rbx, rbp, r15
    .if \locks
    .if {CHECKED}
    delay
    .endif
    take_lock \locks, rsp, 21f
    cmp dword ptr [rsp + THREAD_flags], 0
    jne 20f
    .endif
    # The kind of the send timeout does not matter, since the partner waits.
    and rax, ANY_SEND_TIMEOUT
    cmp rax, REPLY_AND_WAIT
    je 10f
    cmp rax, {CALL}
    jne 18f
    cmp rdx, rdi
    jne 20f
    call_way \locks, \pcids, 0, 51f
10: reply_way \locks, \clear, \pcids, 0, 60f

# The same where the caller or its partner has an FPU state.
50: call_way \locks, \pcids, 1, 20f
60: reply_way \locks, \clear, \pcids, 1, 20f

# lthread_ex_regs about the FPU state of a thread that has one, on a machine with one processor.
18: .if \locks == 0
    cmp rax, CALL_LTHREAD_EX_REGS
    jne 20f
    test dword ptr [rsp + FRAME_flags], FLAGS_NEED_IRET
    jnz 20f
    look_up 20f
    save_message
    mov rdx, rsi
    mov rsi, rbx
    mov rdi, rsp
    ask_rust {exchange_fpu}, \clear, 25f
    xor eax, eax
    mov rcx, [rsp + FRAME_ip]
    mov r11, [rsp + FRAME_flags]
    load rsp, r15, r14, r13, r12, r10, r9, r8, rbp, rbx, rdx, rsi, rdi, rsp
    swapgs
    sysretq
25: slow_path {slow_syscall}, \clear
    .endif

# The long way for a native thread.
20: mov byte ptr gs:[{CPU_LOCK}], 0
21: save_message
    slow_path {slow_syscall}, \clear
    .if \locks
22: mov byte ptr gs:[{CPU_LOCK}], 0
    save_message
    slow_path {answering_syscall}, \clear
    .endif

# Any other thread, alien or with something special: all registers are saved first.
30: mov rsp, [rsp + {THREAD_FRAME}]
    save_after_syscall
    lea rsp, [rsp - FRAME_r15]
    mov rbp, gs:[CPU_current]
    cmp dword ptr [rbp + THREAD_flags], ALIEN | FPU
    jne 32f
31: mov r8, rax
    mov r9, rcx
    mov r10d, [rbp + THREAD_frame_index]
    xor r12d, r12d
    mov rsi, {SYSCALL_TAG}
33: take_lock \locks, rbp, 41f
    mov rdi, [rbp + THREAD_handler]
    look_up 40f
    must_take_message 40f
    must_wait_for_any \locks, 0, 36f
    # Point of no return.
    leave_to_handler \locks, \pcids, 0
36: must_wait_for_any \locks, 1, 40f
    # Point of no return.
    leave_to_handler \locks, \pcids, 1
32: cmp dword ptr [rbp + THREAD_flags], ALIEN
    je 31b
    mov edx, [rbp + THREAD_flags]
    and edx, ~FPU
    cmp edx, ALIEN | DISPATCHED
    jne 35f
    test eax, CALL_HANDLER
    jz 34f
    # A message of its own: the rest of eax is its label.
    mov esi, eax
    btr esi, {CALL_HANDLER_BIT}
    shl rsi, {TAG_LABEL_SHIFT}
    or rsi, REGISTER_WORDS
    jmp 33b
    # Its program's entry takes all calls but those from the entry's page. rcx and r11 are as SYSCALL makes them.
34: mov rdx, [rbp + THREAD_dispatch]
    cmp rdx, DISPATCH_ON
    je 31b
    mov rsi, rcx
    xor rsi, rdx
    shr rsi, {PAGE_SHIFT}
    jz 31b
    mov rbp, rsp
    mov rsp, gs:[CPU_stack]
    push USER_SS
    push qword ptr gs:[CPU_scratch]
    push r11
    push USER_CS
    push rdx
    load rbp, rdx, rsi, rbp
    swapgs
    iretq
    # A native thread with nothing special but an FPU state.
35: test edx, edx
    jnz 41f
    take_lock \locks, rsp, 41f
    test dword ptr [rsp + THREAD_flags], ~FPU
    jnz 40f
    and rax, ANY_SEND_TIMEOUT
    cmp rax, REPLY_AND_WAIT
    je 60b
    cmp rax, {CALL}
    jne 40f
    cmp [rsp + FRAME_rdx], rdi
    je 50b
40: mov byte ptr gs:[{CPU_LOCK}], 0
41: slow_path {slow_syscall}, \clear
.endm

# Where there are no other processors, no lock is needed: each long way ends before the next short one begins.
fast_paths syscall_entry, 1, 1, 0
fast_paths up_syscall_entry, 0, 1, 0
fast_paths unscrubbed_syscall_entry, 1, 0, 0
fast_paths unscrubbed_up_syscall_entry, 0, 0, 0
fast_paths pcid_syscall_entry, 1, 1, 1
fast_paths pcid_up_syscall_entry, 0, 1, 1

# The page fault of the thread rbp, whose frame rsp is, to the pager rbx, id in rdi, from the point of no return on. edx = error
# code.
.macro fault_way pcids, fpu
    mov qword ptr [rsp + FRAME_vector], VECTOR_PF
    mov [rsp + FRAME_error_code], rdx
    mov r8, cr2
    mov [rsp + FRAME_cr2], r8
    mov r9, [rsp + FRAME_ip]
    mov r10d, [rbp + THREAD_frame_index]
    mov r12d, edx
    and r12d, {CODE_PRESENT}
    mov rsi, {READ_FAULT_TAG}
    test edx, {CODE_WRITE} | {CODE_FETCH}
    jz 1f
    mov rsi, {WRITE_FAULT_TAG}
    test edx, {CODE_FETCH}
    jz 1f
    mov rsi, {FETCH_FAULT_TAG}
    # By its kind a refused fault is told from other messages (fault.rs).
1:  mov [rbp + {THREAD_MESSAGE_TAG}], rsi
    # As in user_exception: the pager may run 32-bit code, and gets the processor by SYSRET.
    mov eax, KERNEL_SS
    mov ss, eax
    cmp rdi, [rbp + THREAD_handler]
    je 3f
    # The words of a message that its tag does not count are still in the faulter's registers, which
    # are none of the pager's business.
4:  xor r13d, r13d
    xor r14d, r14d
2:  leave_to_handler 1, \pcids, \fpu
3:  test dword ptr [rbp + THREAD_flags], ALIEN
    jnz 2b
    # A native thread's handler sees its frame, with its bases.
    rdfsbase rax
    mov [rsp + FRAME_fs_base], rax
    swapgs
    rdgsbase rax
    swapgs
    mov [rsp + FRAME_gs_base], rax
    mov rax, rdi
    lea r11, [rsi + {MORE_WORDS}]
    mov rdi, [rbx + {THREAD_UTCB}]
    add rdi, {UTCB_WORDS}
    mov rsi, rsp
    mov ecx, FRAME_WORDS
    rep movsq
    mov rsi, r11
    mov rdi, rax
    jmp 4b
.endm

# A page fault whose pager waits for anybody; common_entry stands in its place where the short ways are switched off.
.macro page_fault_way name, pcids
.balign 64
.globl \name
\name:
    push VECTOR_PF
    test byte ptr [rsp + 24], 3
    jz kernel_entry
    save_after_vector
    lea rcx, [rsp - FRAME_r15]
    mov rsp, gs:[CPU_stack]
    clear_flags
    mov rdx, [rsp + ERROR_CODE]
    mov rsp, rcx
    mov rbp, gs:[CPU_current]
    test dword ptr [rbp + THREAD_flags], ~(ALIEN | FPU | DISPATCHED)
    jnz 41f
    # sigma0's faults are the kernel's to serve.
    cmp dword ptr [rbp + THREAD_task_number], TASK_SIGMA0
    je 41f
    take_lock 1, rbp, 41f
    mov rdi, [rbp + THREAD_pager]
    look_up 40f
    must_take_message 40f
    must_wait_for_any 1, 0, 36f
    fault_way \pcids, 0
36: must_wait_for_any 1, 1, 40f
    fault_way \pcids, 1
40: mov byte ptr gs:[{CPU_LOCK}], 0
41: mov edi, VECTOR_PF
    jmp user_exception
.endm

page_fault_way page_fault_entry, 0
page_fault_way pcid_page_fault_entry, 1
