# SPDX-License-Identifier: GPL-2.0-only
# The IPC fast paths: SYSCALL enters here, and so do page faults.
#
# Owns: the fast paths between threads of one CPU. Served are
# - call, and reply with open wait, between native threads (call_path, reply_path), of words and of
#   one map item, which Rust maps (pass_more),
# - an alien thread's system call, or explicit message, to a handler in an open wait (fast_paths),
# - an alien thread's system call that its program's own entry takes (fast_paths),
# - the reply of a handler that resumes an alien thread and enters an open wait (reply_path),
# - a page fault to a pager in an open wait (page_fault_path),
# - a pager's reply with pages, which Rust maps (reply_path).
# Every other case goes to the slow path in Rust, which serves all cases. The outcome is the same:
# the suite runs with the fast paths and without them (`nofast` on the command line). Only a thread
# with an entry for upcalls sees a difference, as docs/abi.md says: fast paths do not know of that.
#
# Each path checks first and writes no state of a thread or CPU that the slow path would see. At
# POINT OF NO RETURN all checks have passed; below it nothing can fail.
#
# Interrupts are off. No instruction here can fault: TCBs, UTCBs, frames and the Cpu structure are
# always mapped, FPU states are valid (change_fpu), and user values are checked before they are
# loaded as ip or base. No stack is switched to at SYSCALL: rsp is the TCB of a native thread,
# which begins with its frame, or the frame of an alien or faulting one. In the first instructions
# and the last ones rsp and gs are the user's. #DB, NMI, #DF and #MC, which cannot be masked, have
# stacks of their own, and do not use gs where they interrupted the kernel (entry.s).
#
# Locks: this CPU's lock, on a multiprocessor (`locks`); see take_lock. While Rust maps, the
# ordering lock, too (lock.rs: ordered). This CPU's lock is released, or left with a pair
# (direct.rs), before the user's registers are loaded: after SWAPGS only a register leads to the
# lock, and the user's registers leave none. That is safe: another CPU that then takes all locks and
# wants to change this thread first sends an IPI (lock.rs: write_back), which this CPU takes in user
# mode.
#
# Speculation: message words stay in their registers, and no address is made of them. An address is
# made of a user's value in one place, look_up, where a shift bounds it. There is no indirect jump.
# So registers are not cleared here, except for Rust; the slow path clears them once all are saved.
# pass_more with a mispredicted count would move words past the UTCB, but no address is made of
# these either.
#
# Registers of a call and of its message:
#   rax = call number and flags, rdx = the thread to receive from,
#   rdi = destination or sender, rsi = tag, r8 r9 r10 r12 r13 r14 = words 0 to 5.
# "Message registers" below are rdi, rsi and the six words. Further words are in the UTCBs.
# The checks may use rax rcx rdx rbx rbp r11 r15: the entry has saved them, or a call loses them.
#
# THREAD_STATE_WORD is eight bytes that one instruction compares or writes (thread.rs: state_word):
# state, open wait, number of the CPU, zero, and four bytes of flags. Equality with one of the
# values in the Cpu structure says: the thread waits so, on this CPU, and has no other flag. "Has an
# FPU state" (FPU) is a flag: a plain compare refuses such a thread, and the copies of the paths for
# the FPU clear that bit of the word before they compare.
#
# The FPU is on only if the running thread has a state, or borrows that of the alien thread that it
# handles (CPU_fpu_lent). Paths from a thread that has none take for granted that it is off. From a
# borrower only the replies to alien threads are served: for the others must_run_next compares a
# word of which CPU_fpu_lent is the upper half.
#
# Defined elsewhere: the macros symbol, save, load, clear, slow_path, save_after_syscall,
# save_after_vector, push_interrupt_words and clear_flags in entry.s; constants and offsets of
# fields in mod.rs, by name or in braces. docs/glossary.md has alien, native, handler, chief and
# clan.

# rbx = TCB of the thread with the id in rdi. Refused if this CPU's cache does not have it: the
# slow path validates the id and fills the cache. The shift leaves a slot number whatever edi is,
# so the access is in bounds under speculation too. Whoever deletes a thread clears its slot on each
# CPU, and an empty slot has an id that no look-up for that slot can have (lookup.rs). Uses rax.
.macro look_up refused
    imul eax, edi, LOOKUP_FACTOR
    shr eax, LOOKUP_SHIFT
    cmp gs:[CPU_lookup_cache + rax * 8], rdi
    jne \refused
    mov rbx, gs:[CPU_lookup_cache + rax * 8 + {LOOKUP_THREADS}]
.endm

# Check: the scheduler would choose `thread` next. No ready thread has a priority as high as its
# own, and no time slice has to start or end (Cpu::preemption_threshold). Also: the caller does not
# borrow an FPU state, unless the comparison is of 16 bits. Uses rax.
.macro must_run_next refused, priority=eax, size=dword, thread=rbx
    movzx eax, byte ptr [\thread + THREAD_priority]
    cmp \priority, \size ptr gs:[CPU_preemption_threshold]
    jb \refused
.endm

# Check: a message from the caller to rbx is not redirected to a chief. They are in the same clan,
# or one is the other's chief. Threads whose partner, pager or handler is in another clan have
# CROSS_CLAN or CROSS_CLAN_HANDLER set and never pass the check of their flags. Uses rax.
.macro must_be_same_clan refused
    mov rax, [rbx + THREAD_chief]
    cmp rax, [rsp + THREAD_chief]
    je .Lsame_clan_\@
    cmp rax, [rsp + THREAD_task]
    je .Lsame_clan_\@
    mov rax, [rsp + THREAD_chief]
    cmp rax, [rbx + THREAD_task]
    jne \refused
.Lsame_clan_\@:
.endm

# Saves the caller's selectors in one word.
.macro save_selectors place
    mov word ptr [\place], ds
    mov word ptr [\place + 2], es
    mov word ptr [\place + 4], fs
    mov word ptr [\place + 6], gs
.endm

# Check: the caller's selectors, saved here, equal those in frame `to`, so none is loaded. Loading
# one could fault. Nearly always all are null. Uses rax.
.macro must_share_selectors to, refused
    save_selectors "rsp + FRAME_segments"
    mov rax, [\to + FRAME_segments]
    cmp rax, [rsp + FRAME_segments]
    jne \refused
.endm

# rbp = frame of the blocked thread rbx. Check: it runs 64-bit code, and no selector has to be
# loaded. A 32-bit thread needs another exit (switch.rs: load). Uses rax.
.macro must_be_64_bit refused
    mov rbp, [rbx + THREAD_frame]
    must_share_selectors rbp, \refused
    cmp dword ptr [rbp + FRAME_cs], USER_CS
    jne \refused
.endm

# Reads the frame rbp of the blocked thread rbx: rcx = ip, r11 = flags, rdx = FS base, r15 = GS
# base. An alien thread's frame is its chief's memory too, which may change at any time: each word
# is read once, and used as it was checked. Uses rax.
.macro read_frame refused
    mov rcx, [rbp + FRAME_ip]
    mov r11d, [rbp + FRAME_flags]
    mov rdx, [rbp + FRAME_fs_base]
    mov r15, [rbp + FRAME_gs_base]
    # Its ip and bases are in the lower half, so that no exit instruction and no WRFSBASE faults.
    # The slow path takes any canonical address.
    mov rax, rcx
    or rax, rdx
    or rax, r15
    shr rax, HALF_SHIFT
    jnz \refused
.endm

# Check: SYSRET restores all registers of the frame rbp. It needs rcx = ip and r11 = flags, which
# read_frame has loaded, and cannot restore TF and RF. Uses rax.
.macro must_restore_by_sysret refused
    cmp rcx, [rbp + FRAME_rcx]
    jne \refused
    cmp r11, [rbp + FRAME_r11]
    jne \refused
    mov eax, r11d
    xor eax, FLAGS_FIXED
    test eax, {FLAGS_NOT_SYSRET}
    jnz \refused
.endm

# Check: the CPU can be switched to the blocked native thread rbx at once, and SYSRET can return to
# it: no selector has to be loaded, and its flags have neither TF nor RF, which SYSRET would not
# restore properly.
#
# Its ip is canonical, so Intel's SYSRET cannot raise #GP in the kernel: SYSCALL saved it, and the
# last page of the lower half is never mapped (space.rs: map), so the ip after each `syscall` is
# canonical. Another ip that lthread_ex_regs set sets the flag BAD_IP. The other flags are those
# that SYSCALL saved: what a pager writes into a frame passes `switch::load` before the thread
# blocks again. Uses rax.
.macro must_take_message refused
    must_run_next \refused
    test dword ptr [rbx + FRAME_flags], FLAGS_NEED_IRET
    jnz \refused
    must_share_selectors rbx, \refused
.endm

# Check: the thread rbx is in an open wait on this CPU, and has no flag set. With `fpu` it may have
# an FPU state. `locks`: as in take_lock. Uses rax.
.macro must_be_in_open_wait locks, fpu, refused
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

# The caller, a native thread, blocks: `kind` is open or closed, `up` its state word on a
# uniprocessor. Its flags stay. Uses rax.
.macro enter_wait kind, up, locks
    .if \locks
    mov eax, gs:[CPU_\kind\()_wait]
    mov [rsp + {THREAD_STATE_WORD}], eax
    .else
    mov dword ptr [rsp + {THREAD_STATE_WORD}], \up
    .endif
.endm
.macro enter_open_wait locks
    enter_wait open, {UP_OPEN_WAIT}, \locks
    mov qword ptr [rsp + THREAD_partner], ID_NIL
.endm

# Saves what a native thread's entry has not saved yet. All message registers are still the user's.
# Uses rax.
.macro save_message
    save rsp, rdi, rsi, r8, r9, r10, r12, r13, r14
    mov rax, [rsp + FRAME_orig_ax]
    save rsp, rax
.endm

# The message from rsp to rbx has more than register words. Check: the tag has at most MAX_WORDS
# words, and no items or kind, whose bits are above these; or register words and one map item. This
# is the last check; then the words are copied. SYSCALL has cleared DF. Keeps the message registers.
# With the item Rust looks whether it can be mapped at once (transfer.rs: map_item); if not, the
# slow path maps all of it. Uses all other registers, except that rbp is the caller's id if it was.
.macro pass_more name, locks, clear, back
    cmp esi, MAX_WORDS
    ja .Litem_\@
    mov r11, rdi
    mov r15, rsi
    lea ecx, [rsi - REGISTER_WORDS]
    mov rax, [rsp + THREAD_utcb]
    lea rsi, [rax + {UTCB_WORDS}]
    mov rax, [rbx + THREAD_utcb]
    lea rdi, [rax + {UTCB_WORDS}]
    rep movsq
    mov rsi, r15
    mov rdi, r11
    jmp \back
.Litem_\@:
    lea eax, [rsi - TAG_ONE_ITEM]
    cmp eax, REGISTER_WORDS
    ja .Lslow_\name
    save_message
    mov rdi, rsp
    mov rsi, rbx
    .if \clear
    clear ecx, edx
    .endif
    call_rust {map_item}, {map_item_ordered}, \locks, \clear, .Lsaved_slow_\name
    load rsp, rdi, rsi, r8, r9, r10, r12, r13, r14
    mov rbp, [rsp + THREAD_id]
    jmp \back
.endm

# Switches the CPU to the thread rbx: its state, its address space, its ports, its CPU time. `from`:
# the caller's TCB. `pcids`: with PCID, CR3 is built as in `Pcids::enter`; the TLB entries of rbx's
# space are kept if its PCID was last used for this space. `supervisor`: a thread that runs in any
# space with its half stays in the present one, if that has it (switch.rs: change), and global
# translations of another half are dropped (paging.rs: switch). Uses rax rdx.
.macro change_thread from, pcids, supervisor
    mov byte ptr [rbx + {THREAD_STATE_WORD}], {STATE_READY}
    mov gs:[CPU_current], rbx
    mov gs:[CPU_loaded], rbx
    mov rax, [rbx + THREAD_space]
    cmp rax, gs:[CPU_space]
    je .Lsame_space_\@
    .if \supervisor
    mov rdx, [rbx + THREAD_half]
    cmp byte ptr [rbx + THREAD_any_space], 0
    je .Lother_space_\@
    cmp rdx, gs:[CPU_half]
    je .Lsame_space_\@
.Lother_space_\@:
    mov gs:[CPU_half], rdx
    .endif
    mov gs:[CPU_space], rax
    .if \pcids
    mov rdx, rax
    shr rdx, PAGE_SHIFT
    and edx, {PCID_MASK}
    cmp rax, gs:[rdx * 8 + {CPU_PCIDS}]
    mov gs:[rdx * 8 + {CPU_PCIDS}], rax
    lea rax, [rax + rdx + 1]
    jne .Lflush_\@
    bts rax, {PCID_NOFLUSH_BIT}
.Lflush_\@:
    .endif
    mov cr3, rax
    .if \supervisor
    mov rdx, gs:[CPU_half]
    test rdx, rdx
    jz .Lhalf_is_held_\@
    cmp rdx, {OWN_HALF}
    jne .Lhalf_is_shown_\@
    xor edx, edx
.Lhalf_is_shown_\@:
    cmp rdx, gs:[CPU_half_held]
    je .Lhalf_is_held_\@
    mov gs:[CPU_half_held], rdx
    mov rax, cr4
    xor rax, {CR4_PGE}
    mov cr4, rax
    xor rax, {CR4_PGE}
    mov cr4, rax
.Lhalf_is_held_\@:
    .endif
    # The first use of a port faults, and the kernel then loads the task's bitmap (tables.rs).
    mov word ptr gs:[{CPU_PORTS}], NO_PORTS
.Lsame_space_\@:
    rdtsc
    shl rdx, 32
    or rax, rdx
    add [\from + THREAD_consumed], rax
    sub [rbx + THREAD_consumed], rax
.endm

# Makes the user's segments those of the thread rbx, if it reaches something else than what ran
# before, and perhaps in the same space: then its ports are its own, too. With `data` ds and es are
# the user's data. Uses rax.
.macro change_reach data=0
    mov rax, [rbx + THREAD_reach]
    cmp rax, gs:[CPU_reach]
    je .Lsame_reach_\@
    mov gs:[CPU_reach], rax
    mov word ptr gs:[{CPU_PORTS}], NO_PORTS
    .irp place, 0, 8, 16
    mov rax, [rbx + THREAD_segments + \place]
    mov gs:[{CPU_SEGMENTS} + \place], rax
    .endr
    mov rax, [rbx + THREAD_segments + 24]
    mov al, gs:[{CPU_INDEX}]
    mov gs:[{CPU_TLS} + 24], rax
    .if \data
    mov eax, USER_SS
    mov ds, eax
    mov es, eax
    .endif
.Lsame_reach_\@:
.endm

# Saves the caller's FS and GS bases and loads `fs` and `gs`, which are canonical. Then releases the
# lock: no state that it protects is changed below. `left`: the state in which the lock is left,
# free or with a pair. gs is the user's afterwards. Uses rax, with `locks` also rdx.
.macro change_bases fs, gs, locks, left={FREE}
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
    mov byte ptr [rdx + {CPU_LOCK}], \left
    .endif
.endm

# Switches the CPU from the thread `from` to the native thread rbx, as change_thread, and returns to
# it by SYSRET, with status 0. `sender`: the id that it gets as the sender's. The other message
# registers are the receiver's results. Uses all others.
.macro leave_to_native from, sender, locks, pcids, supervisor
    change_thread \from, \pcids, \supervisor
    mov rdi, \sender
    resume_native \locks, \supervisor
.endm

# The end of the exit to the native thread rbx, which has its results except the status, 0: by
# SYSRET, or to supervisor mode by a jump, which restores no flags. Those that matter there are
# clear, as SYSCALL left them. `left`: as in change_bases.
.macro resume_native locks, supervisor, left={FREE}
    mov r11, [rbx + FRAME_fs_base]
    mov rcx, [rbx + FRAME_gs_base]
    change_bases r11, rcx, \locks, \left
    xor eax, eax
    mov rcx, [rbx + FRAME_ip]
    .if \supervisor
    cmp byte ptr [rbx + THREAD_supervisor], 0
    jne .Lto_supervisor_\@
    .endif
    mov r11, [rbx + FRAME_flags]
    load rbx, rdx, r15, rbp, rsp, rbx
    sysretq
    .if \supervisor
.Lto_supervisor_\@:
    load rbx, rdx, r15, rbp, rsp, rbx
    jmp supervisor_exit
    .endif
.endm

# The end of the exit to the alien thread rbx by SYSRET, or to supervisor mode by a jump. All state
# but bases and registers is changed. rsp = caller's TCB, rbp = rbx's frame, rcx = ip, r11 = flags,
# without TF and RF, rdi = FS base, r15 = GS base. `left`: as in change_bases; not rax, rdx, r8.
.macro leave_to_alien locks, supervisor, left={FREE}
    .if \supervisor
    cmp byte ptr [rbx + THREAD_supervisor], 0
    jne .Lto_supervisor_\@
    .endif
    change_bases rdi, r15, \locks, \left
    load rbp, r15, r14, r13, r12, rbx, r10, r9, r8, rdx, rsi, rdi, rax, rsp, rbp
    sysretq
    .if \supervisor
.Lto_supervisor_\@:
    mov r8, gs:[CPU_stack]
    change_bases rdi, r15, \locks, \left
    mov rsp, r8
    # No interrupt before supervisor_exit.
    push r11
    btr qword ptr [rsp], {FLAG_IF_BIT}
    popfq
    load rbp, r15, r14, r13, r12, rbx, r10, r9, r8, rdx, rsi, rdi, rax, rsp, rbp
    jmp supervisor_exit
    .endif
.endm

# Direct calls (direct.rs): the alien thread rbx, which is resumed, calls the handler rsp, a
# supervisor task's that shows its upper half in rbx's space and that now waits for anybody, without
# a change of any thread's state until something else happens. In user mode this CPU's lock is left
# with the pair meanwhile; with `locks` r9b is what to leave it with. Uses rax.
.macro allow_direct_calls locks
    .if \locks
    xor r9d, r9d
    .endif
    # The handler runs in rbx's space too,
    cmp byte ptr [rsp + THREAD_any_space], 0
    je .Lnot_direct_\@
    mov rax, [rsp + THREAD_half]
    cmp rax, [rbx + THREAD_half]
    jne .Lnot_direct_\@
    # gets all calls of rbx, and no explicit messages,
    mov rax, [rsp + THREAD_id]
    cmp rax, [rbx + THREAD_handler]
    jne .Lnot_direct_\@
    test dword ptr [rbx + THREAD_flags], ~(ALIEN | FPU)
    jnz .Lnot_direct_\@
    # borrows its FPU state, and would run next.
    cmp byte ptr [rsp + THREAD_borrows_fpu], 0
    je .Lnot_direct_\@
    must_run_next .Lnot_direct_\@, ax, word, rsp
    mov gs:[CPU_direct], rsp
    .if \locks
    mov r9d, {PAIR}
    .else
    mov byte ptr gs:[{CPU_LOCK}], {PAIR}
    .endif
.Lnot_direct_\@:
.endm

# The next FPU instruction traps. Uses rax.
.macro switch_fpu_off
    mov eax, {CR0_FPU_OFF}
    mov cr0, rax
    mov byte ptr gs:[CPU_fpu_off], 1
.endm

# With `fpu`: makes the FPU rbx's. If rbx has a state, the FPU is on and has that state; otherwise
# it is off. Any earlier owner's state is saved. XSAVE and XRSTOR cannot fault: each state is large
# enough and aligned, and its content was saved by XSAVE or checked (fpu.rs). Both process all
# components that are switched on. Uses rax rdx and `other`.
.macro change_fpu fpu, other
    .if \fpu
    test dword ptr [rbx + THREAD_flags], FPU
    jz .Lno_state_\@
    clts
    mov byte ptr gs:[CPU_fpu_off], 0
    cmp rbx, gs:[CPU_fpu_owner]
    je .Ldone_\@
    mov eax, {FPU_COMPONENTS}
    xor edx, edx
    mov \other, gs:[CPU_fpu_owner]
    test \other, \other
    jz .Lrestore_\@
    mov \other, [\other + THREAD_fpu]
    xsave64 [\other]
.Lrestore_\@:
    mov \other, [rbx + THREAD_fpu]
    xrstor64 [\other]
    mov gs:[CPU_fpu_owner], rbx
    jmp .Ldone_\@
.Lno_state_\@:
    cmp byte ptr gs:[CPU_fpu_off], 0
    jne .Ldone_\@
    switch_fpu_off
.Ldone_\@:
    .endif
.endm

# Calls a Rust function on the kernel stack, with arguments in rdi, rsi, rdx, rcx: on a
# multiprocessor (`locks`) `ordered`. `clear`: clears the other registers first, as the slow path
# does. The function returns false if it refuses. All of the user's registers are saved. Keeps rsp
# rbx, and uses all others.
.macro call_rust function, ordered, locks, clear, refused
    mov rbp, rsp
    mov rsp, gs:[CPU_stack]
    .if \clear
    clear eax, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d
    .endif
    .if \locks
    call \ordered
    .else
    call \function
    .endif
    mov rsp, rbp
    test al, al
    jz \refused
.endm

# POINT OF NO RETURN: nothing below can fail.
# The thread with TCB rbp blocks until its handler or pager rbx (id in rdi) replies; rbx receives
# the message: rsi = tag, and the words. rsp = rbp's frame. `fpu`: rbx may have an FPU state.
# Without one it may borrow that of rbp with `lend`: rbp is alien, and rbx is its handler.
.macro leave_to_handler locks, pcids, supervisor, fpu, lend
    mov byte ptr [rbp + {THREAD_STATE_WORD}], {STATE_FAULTED}
    mov [rbp + THREAD_partner], rdi
    inc dword ptr [rbx + THREAD_waiters]
    change_fpu \fpu, r15
    .if \lend
    mov [rbx + THREAD_lender], rbp
    .endif
    .if \fpu == 0
    # rbx has no FPU state. The FPU is on only if rbp has one.
    test dword ptr [rbp + THREAD_flags], FPU
    jz .Lfpu_is_right_\@
    .if \lend
    cmp byte ptr [rbx + THREAD_borrows_fpu], 0
    je .Llends_none_\@
    mov word ptr gs:[CPU_fpu_lent], 1
    .else
    switch_fpu_off
    .endif
.Lfpu_is_right_\@:
    .endif
    leave_to_native rbp, "[rbp + THREAD_id]", \locks, \pcids, \supervisor
    .if \lend > \fpu
.Llends_none_\@:
    switch_fpu_off
    jmp .Lfpu_is_right_\@
    .endif
.endm

# Takes this CPU's lock if it is free, on a multiprocessor (`locks`); otherwise goes to `busy`. This
# path does not spin: the slow path takes the lock and serves write-back requests meanwhile. A path
# that has the lock and is refused for another reason releases it first. At `busy` cl is what the
# lock was: if a pair had left it, this has taken it. Uses ecx.
#
# Before the lock a path reads CPU_current, and of the caller's TCB flags, frame, frame_index,
# dispatch and task_number. Between these reads and the lock another CPU may take all locks and
# release them, unseen. It changes none of these, nor CPU_loaded, unless it first makes this CPU
# write back (lock.rs), and that waits until this CPU spins on the slow path or is in user mode. The
# exceptions are CPU_loaded, which is the caller afterwards, where it ends direct calls, and two
# flags that are set without a write-back: CROSS_CLAN, set when a sender with a virtual id queues,
# and DEBUG_TLS. A native thread's system calls therefore check the flags again under the lock. To
# an alien thread's calls and to faults neither flag matters: such a thread keeps its flags and
# waits for no message.
.macro take_lock locks, caller, busy
    .if \locks
    mov ecx, {HELD}
    xchg byte ptr gs:[{CPU_LOCK}], cl
    test cl, cl
    jnz \busy
    check_loaded \caller
    .endif
.endm

# Call: a send with a closed wait for the reply, to a partner in an open wait.
# Live: rsp = caller's TCB, message registers. The lock is held.
# `name`: the entry, whose labels are used. `clear`: registers are cleared before Rust is called.
# `fpu`: caller and partner may have FPU states; without it the caller has none, and a partner that
# has one is refused to `unlike`.
#
# There are two copies, so that threads without FPU states need no code for the FPU. `unlike` of the
# first copy is the same check in the second one.
.macro call_path name, locks, clear, pcids, supervisor, fpu, unlike
    # The destination exists.
    look_up .Lslow_\name
    # The message goes to the destination itself.
    must_be_same_clan .Lslow_\name
    # The destination may run next, and SYSRET can return to it.
    must_take_message .Lslow_\name
    .if \fpu
# Also from the copy without `fpu`. Live: rsp = caller's TCB, rbx = partner's, message registers.
.Lcall_partner_with_fpu_\name:
    .endif
    # The destination accepts a message from any thread.
    must_be_in_open_wait \locks, \fpu, \unlike
    # The tag has register words only: no words in the UTCB, no items, no kind.
    cmp esi, REGISTER_WORDS
    ja .Lcall_more_\@
    # POINT OF NO RETURN: nothing below can fail.
.Lcall_commit_\@:
    inc dword ptr [rbx + THREAD_waiters]
    enter_wait closed, {UP_CLOSED_WAIT}, \locks
    mov [rsp + THREAD_partner], rdi
    change_fpu \fpu, r15
    leave_to_native rsp, "[rsp + THREAD_id]", \locks, \pcids, \supervisor

# The tag has more than the register words.
# Live: rsp = caller's TCB, rbx = partner's, message registers.
.Lcall_more_\@:
    pass_more \name, \locks, \clear, .Lcall_commit_\@
.endm

# Reply with open wait: the partner is in a closed wait for the caller, in an open wait, or blocked
# on the caller as its handler or pager.
# Live and parameters: as in call_path.
.macro reply_path name, locks, clear, pcids, supervisor, fpu, unlike
    # The partner exists.
    look_up .Lslow_\name
    # The caller will block: no notification, interrupt or sender may be pending for its open wait.
    cmp byte ptr [rsp + THREAD_maybe_pending], 0
    jne .Lslow_\name
    mov rbp, [rsp + THREAD_id]
    # The partner is in a closed wait on this CPU, without flags. It is in the caller's clan, if it
    # waits for the caller: CROSS_CLAN is not set.
    mov rdx, [rbx + {THREAD_STATE_WORD}]
    .if \fpu
    btr rdx, {STATE_WORD_FPU_BIT}
    .endif
    cmp rdx, gs:[CPU_closed_wait]
    jne .Lreply_to_alien_\@
    # The partner may run next, and SYSRET can return to it.
    must_take_message .Lslow_\name
    # It waits for the caller, not for another thread.
    cmp rbp, [rbx + THREAD_partner]
    jne .Lslow_\name
    # The tag has register words only.
    cmp esi, REGISTER_WORDS
    ja .Lreply_more_\@
    # POINT OF NO RETURN: nothing below can fail.
.Lreply_commit_\@:
    dec dword ptr [rsp + THREAD_waiters]
    # POINT OF NO RETURN for a partner in an open wait, which is no waiter of the caller.
.Lreply_block_\@:
    enter_open_wait \locks
    change_fpu \fpu, r15
    leave_to_native rsp, rbp, \locks, \pcids, \supervisor

# The tag has more than the register words.
# Live: rsp = caller's TCB, rbx = partner's, rbp = caller's id, message registers.
.Lreply_more_\@:
    pass_more \name, \locks, \clear, .Lreply_commit_\@

# The partner is in neither a fault nor, in this copy, a closed wait: one in a closed wait that has
# an FPU state goes from here to the copy for the FPU (`unlike`).
# Live: rsp = caller's TCB, rbx = partner's, rbp = caller's id, message registers.
    # It is in an open wait on this CPU, without flags.
.Lreply_to_open_wait_\@:
    must_be_in_open_wait \locks, \fpu, \unlike
    # The message goes to it itself. An open wait says nothing about the sender's clan.
    must_be_same_clan .Lslow_\name
    # The partner may run next, and SYSRET can return to it.
    must_take_message .Lslow_\name
    # The tag has register words only. Others and items are rare here, and take the slow path.
    cmp esi, REGISTER_WORDS
    jbe .Lreply_block_\@
    jmp .Lslow_\name

# The partner is perhaps an alien thread that is blocked on the caller, its handler or pager.
# Live: rsp = caller's TCB, rbx = partner's, rbp = caller's id, rdx = partner's state word, message
# registers.
    # The tag has no items and is not TAG_FORWARD.
.Lreply_to_alien_\@:
    test esi, {TAG_ITEMS}
    jnz .Lreply_with_pages_\@
    # It is alien and blocked on a fault or call, on this CPU, without flags except FPU.
    btr rdx, {STATE_WORD_FPU_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    jne .Lreply_to_dispatched_\@
    # It waits for the caller, not for another thread.
.Lreply_check_alien_\@:
    cmp rbp, [rbx + THREAD_partner]
    jne .Lslow_\name
    # The partner may run next.
    must_run_next .Lslow_\name, ax, word
    must_be_64_bit .Lslow_\name
    read_frame .Lslow_\name
    # POINT OF NO RETURN: nothing below can fail. What follows chooses the exit instruction.
    must_restore_by_sysret .Lreply_by_iret_\@
    # Usually its FPU state is still loaded, and lent to the caller: then the FPU is on.
    btr word ptr gs:[CPU_fpu_lent], 0
    jnc .Lreply_not_lent_\@
    cmp rbx, gs:[CPU_fpu_owner]
    jne .Lreply_fpu_\@
.Lreply_by_sysret_\@:
    dec dword ptr [rsp + THREAD_waiters]
    enter_open_wait \locks
    mov rdi, rdx
    change_thread rsp, \pcids, \supervisor
    .if \supervisor > \fpu
    allow_direct_calls \locks
    leave_to_alien \locks, \supervisor, r9b
    .else
    leave_to_alien \locks, \supervisor
    .endif

# No FPU state is lent to the caller, or another one than the partner's. Without `fpu` the caller
# has none of its own: if none is lent the FPU is off, which is right for a partner without a state.
# Live: rsp = caller's TCB, rbx = partner's, rbp = partner's frame, rcx = ip, r11 = flags, rdx = FS
# base, r15 = GS base. The message's words are dead.
.Lreply_not_lent_\@:
    .if \fpu == 0
    test dword ptr [rbx + THREAD_flags], FPU
    jz .Lreply_by_sysret_\@
    .endif
.Lreply_fpu_\@:
    mov r8, rdx
    change_fpu 1, r9
    mov rdx, r8
    jmp .Lreply_by_sysret_\@

# An alien thread that sends explicit messages to its handler (DISPATCHED) is resumed like others.
# Live: as at .Lreply_to_alien, with the FPU bit clear in rdx.
.Lreply_to_dispatched_\@:
    btr rdx, {STATE_WORD_DISPATCHED_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    je .Lreply_check_alien_\@
    jmp .Lreply_to_open_wait_\@

# The reply has items: perhaps pages for the partner's page fault.
# Live: as at .Lreply_to_alien.
    # What the tag has: Rust looks whether that is items alone.
.Lreply_with_pages_\@:
    mov ecx, esi
    and ecx, TAG_CONTENT
    # The partner is blocked on a fault or call, on this CPU, alien or native, without other flags.
    # The open bit means nothing then.
    mov rax, {STATE_WORD_OF_FAULTED}
    and rdx, rax
    bts rdx, {STATE_WORD_ALIEN_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    jne .Lslow_\name
    # It waits for the caller, not for another thread.
    cmp rbp, [rbx + THREAD_partner]
    jne .Lslow_\name
    # The partner may run next.
    must_run_next .Lslow_\name, ax, word
    # Rust uses the message registers. From here on the slow path need not save them.
    save_message
    must_be_64_bit .Lsaved_slow_\name
    # The pages can be mapped at once (transfer.rs: map_answer), and no other CPU maps or unmaps
    # meanwhile. If not, the slow path maps all of them: those that are mapped by then, too.
    mov rdi, [rsp + THREAD_task]
    mov rsi, [rbx + THREAD_task]
    mov rdx, [rsp + THREAD_utcb]
    call_rust {map_answer}, {map_answer_ordered}, \locks, \clear, .Lsaved_slow_\name
    mov rbp, [rbx + THREAD_frame]
    read_frame .Lsaved_slow_\name
    # POINT OF NO RETURN: nothing below can fail.

# Below the point of no return: the partner gets all registers of its frame, by IRET. The flags are
# the frame's, of which a user may choose some; ss is always the user's.
# Live: rsp = caller's TCB, rbx = partner's, rbp = partner's frame, rcx = ip, r11 = flags, rdx = FS
# base, r15 = GS base.
.Lreply_by_iret_\@:
    mov rdi, rdx
    btr word ptr gs:[CPU_fpu_lent], 0
    .if \fpu == 0
    jc .Lreply_iret_fpu_\@
    # The FPU is off, because the caller has no state, and none is lent to it.
    test dword ptr [rbx + THREAD_flags], FPU
    jz .Lreply_iret_fpu_is_off_\@
    .endif
.Lreply_iret_fpu_\@:
    change_fpu 1, r9
.Lreply_iret_fpu_is_off_\@:
    and r11d, FLAGS_USER
    or r11d, FLAGS_FIXED
    dec dword ptr [rsp + THREAD_waiters]
    enter_open_wait \locks
    mov r8, gs:[CPU_stack]
    change_thread rsp, \pcids, \supervisor
    change_bases rdi, r15, \locks
    mov rsp, r8
    .if \supervisor
    cmp byte ptr [rbx + THREAD_supervisor], 0
    je .Lreply_to_user_\@
    push_interrupt_words "[rbp + FRAME_rsp]", KERNEL_CS, rcx, KERNEL_SS
    jmp .Lreply_words_are_pushed_\@
    .endif
.Lreply_to_user_\@:
    push_interrupt_words "[rbp + FRAME_rsp]", USER_CS, rcx
.Lreply_words_are_pushed_\@:
    load rbp, r15, r14, r13, r12, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, rbp
    iretq
.endm

# The reply with open wait that resumes an alien thread that runs 32-bit code: fast32.s has its
# calls. It has descriptors of its own, and perhaps a window.
# Live: rsp = caller's TCB, rbx = partner's, rbp = caller's id, message registers. The lock is held.
.macro reply_to_32_bits refused, locks, pcids, supervisor
    # The tag has no items and is not TAG_FORWARD.
    test esi, {TAG_ITEMS}
    jnz \refused
    # It is alien, has descriptors, is blocked on a fault or call, on this CPU, and has no other
    # flags than those for an FPU state and a window.
    mov rdx, [rbx + {THREAD_STATE_WORD}]
    btr rdx, {STATE_WORD_DEBUG_TLS_BIT}
    jnc \refused
    btr rdx, {STATE_WORD_FPU_BIT}
    btr rdx, {STATE_WORD_SMALL_BIT}
    cmp rdx, gs:[CPU_fault_wait]
    jne \refused
    # It waits for the caller, not for another thread, and may run next.
    cmp rbp, [rbx + THREAD_partner]
    jne \refused
    must_run_next \refused, ax, word
    # It has no breakpoints, and its selectors are those that it had at its last call, with the
    # same descriptors: then they can be loaded.
    mov rbp, [rbx + THREAD_frame]
    mov rdx, [rbx + THREAD_extra]
    cmp qword ptr [rdx + {EXTRA_DR7}], 0
    jne \refused
    mov rax, [rbp + FRAME_segments]
    cmp rax, [rdx + EXTRA_selectors]
    jne \refused
    cmp dword ptr [rbp + FRAME_cs], USER_CS32
    jne \refused
    read_frame \refused
    # Its ip is in its segment: IRET would fault otherwise. The lowest byte of what it reaches is
    # log2 of the size, or zero if that is all; shifts count modulo 64.
    mov ebp, ecx
    mov ecx, [rbx + THREAD_reach]
    dec ecx
    mov rax, rbp
    shr rax, cl
    cmp eax, 1
    ja \refused
    mov r10d, ebp
    mov rbp, [rbx + THREAD_frame]
    # POINT OF NO RETURN: nothing below can fail.
    mov r9, rdx
    change_fpu 1, r12
    mov word ptr gs:[CPU_fpu_lent], 0
    dec dword ptr [rsp + THREAD_waiters]
    enter_open_wait \locks
    change_thread rsp, \pcids, \supervisor
    change_reach
    mov r12, [rbx + THREAD_extra]
    .irp place, 0, 8, 16
    mov rax, [r12 + EXTRA_shown + \place]
    mov gs:[{CPU_TLS} + \place], rax
    .endr
    mov byte ptr gs:[CPU_debug_tls_loaded], 1
    # The selectors, of a thread without a window also the bases; then as in change_bases.
    save_selectors "rsp + FRAME_segments"
    rdfsbase rax
    mov [rsp + FRAME_fs_base], rax
    mov r8, [r12 + EXTRA_selectors]
    .irp register, ds, es, fs
    mov \register, r8d
    shr r8, 16
    .endr
    # Both jumps below are by this comparison: no instruction up to the second changes the flags.
    cmp qword ptr [rbx + THREAD_reach], 0
    jne .Lfs_is_loaded_\@
    wrfsbase r9
.Lfs_is_loaded_\@:
    mov rdx, gs:[CPU_address]
    swapgs
    rdgsbase rax
    mov [rsp + FRAME_gs_base], rax
    mov gs, r8d
    jne .Lgs_is_loaded_\@
    wrgsbase r15
.Lgs_is_loaded_\@:
    .if \locks
    mov byte ptr [rdx + {CPU_LOCK}], {FREE}
    .endif
    # The kernel stack is below the Cpu structure.
    mov rsp, rdx
    and r11d, FLAGS_USER
    or r11d, FLAGS_FIXED
    push_interrupt_words "[rbp + FRAME_rsp]", USER_CS32, r10
    load rbp, r15, r14, r13, r12, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, rbp
    iretq
.endm

# An entry for SYSCALL. `locks`: there are other CPUs. `clear`: the slow path clears registers.
# `pcids`: TLB entries are kept with PCID.
# Live: rcx = user ip, r11 = user flags, rsp = user stack, gs = the user's, all others the user's.
# `supervisor`: threads may run in supervisor mode, and others call them directly.
.macro fast_paths name, locks, clear, pcids, supervisor
symbol \name, 64
    swapgs
    mov gs:[CPU_scratch], rsp
    mov rsp, gs:[CPU_current]
    # The caller is native and has no flag. This is the fastest case.
    cmp dword ptr [rsp + THREAD_flags], 0
    jne .Lspecial_\name

    # Saves what a call does not name as a result. The message registers stay.
    mov [rsp + FRAME_ip], rcx
    mov rcx, gs:[CPU_scratch]
    mov [rsp + FRAME_rsp], rcx
    mov [rsp + FRAME_flags], r11
    mov qword ptr [rsp + FRAME_cs], USER_CS
    mov [rsp + FRAME_orig_ax], rax
    save rsp, rdx, rbx, rbp, r15
    .if \supervisor > \locks
    mov rbx, gs:[CPU_client]
    test rbx, rbx
    jnz .Lserves_client_\name
    .endif
    .if \locks
    delay_once
    .if \supervisor
    take_lock \locks, rsp, .Lfinds_lock_taken_\name
    .else
    take_lock \locks, rsp, .Lslow_unlocked_\name
    .endif
    .endif
.Lsettled_\name:
    .if \locks
    # The caller still has no flag: see take_lock.
    cmp dword ptr [rsp + THREAD_flags], 0
    jne .Lslow_\name
    .endif
    # Which call it is. The kind of the send timeout does not matter, since the partner waits.
    and rax, ANY_SEND_TIMEOUT
    cmp rax, REPLY_AND_WAIT
    je .Lreply_\name
    cmp rax, {CALL}
    jne .Lslow_\name
    # It receives from the thread that it sends to.
    cmp rdx, rdi
    jne .Lslow_\name
    call_path \name, \locks, \clear, \pcids, \supervisor, 0, .Lcall_partner_with_fpu_\name
.Lreply_\name:
    reply_path \name, \locks, \clear, \pcids, \supervisor, 0, .Lreply_with_fpu_\name

# The same calls where the caller or its partner has an FPU state. These copies repeat all checks.
# Live: rsp = caller's TCB, message registers. The lock is held.
.Lcall_with_fpu_\name:
    call_path \name, \locks, \clear, \pcids, \supervisor, 1, .Lslow_\name
.Lreply_with_fpu_\name:
    reply_path \name, \locks, \clear, \pcids, \supervisor, 1, .Lreply_to_32_bits_\name

# The slow path for a native thread whose message registers are not saved yet. It takes the lock
# itself. On a uniprocessor the lock is free, and the store changes nothing.
# Live: rsp = caller's TCB, message registers.
.Lslow_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lslow_unlocked_\name:
    save_message
    slow_path {slow_syscall}, \clear, \supervisor

# A reply to a thread that no path above resumes: perhaps an alien one that runs 32-bit code.
# Live: rsp = caller's TCB, rbx = partner's, rbp = caller's id, message registers.
.Lreply_to_32_bits_\name:
    reply_to_32_bits .Lslow_\name, \locks, \pcids, \supervisor

# The caller is alien, or has another flag: all registers are saved first, in its frame.
# Live: as at the entry, with rsp = caller's TCB, and gs the kernel's.
.Lspecial_\name:
    mov rsp, [rsp + THREAD_frame]
    save_after_syscall
    lea rsp, [rsp - FRAME_r15]
    mov rbp, gs:[CPU_current]
    .if \supervisor
    cmp byte ptr gs:[{CPU_LOCK}], {PAIR}
    je .Ldirect_call_\name
.Lno_direct_call_\name:
    .endif
    # It is alien with an FPU state, and nothing else: all its calls are messages to its handler.
    cmp dword ptr [rbp + THREAD_flags], ALIEN | FPU
    jne .Lnot_plain_alien_\name

# The system call becomes a message: r8 = call number, r9 = ip, r10 = index of the frame, r12 = 0.
# Live: rsp = caller's frame, rbp = caller's TCB, rax = call number, rcx = ip.
.Lalien_call_\name:
    mov r8, rax
    mov r9, rcx
    mov r10d, [rbp + THREAD_frame_index]
    xor r12d, r12d
    mov rsi, {SYSCALL_TAG}

# Sends the message to the handler.
# Live: rsp = caller's frame, rbp = caller's TCB, rsi = tag, r8 r9 r10 r12 r13 r14 = words.
.Lto_handler_\name:
    take_lock \locks, rbp, .Lsaved_slow_unlocked_\name
    # The handler exists. It is in the caller's clan, or its chief: CROSS_CLAN_HANDLER is not set.
    mov rdi, [rbp + THREAD_handler]
    look_up .Lsaved_slow_\name
    # The handler may run next, and SYSRET can return to it.
    must_take_message .Lsaved_slow_\name
    # The handler accepts a message from any thread.
    must_be_in_open_wait \locks, 0, .Lto_handler_with_fpu_\name
    leave_to_handler \locks, \pcids, \supervisor, 0, 1

# The handler has an FPU state, or is not in an open wait. Live: as above, rbx = handler's TCB.
.Lto_handler_with_fpu_\name:
    must_be_in_open_wait \locks, 1, .Lsaved_slow_\name
    leave_to_handler \locks, \pcids, \supervisor, 1, 1

# The caller is not an alien thread with ALIEN and FPU alone.
# Live: rsp = caller's frame, rbp = caller's TCB, rax = call number, rcx = ip, r11 = flags, message
# registers.
.Lnot_plain_alien_\name:
    cmp dword ptr [rbp + THREAD_flags], ALIEN
    je .Lalien_call_\name
    # It is alien and may send explicit messages (EX_DISPATCH), with an FPU state or without.
    mov edx, [rbp + THREAD_flags]
    and edx, ~FPU
    cmp edx, ALIEN | DISPATCHED
    jne .Lnative_with_fpu_\name
    # CALL_HANDLER in eax: an explicit message. The rest of eax is its label.
    test eax, CALL_HANDLER
    jz .Lprogram_entry_\name
    mov esi, eax
    btr esi, {CALL_HANDLER_BIT}
    shl rsi, TAG_LABEL_SHIFT
    or rsi, REGISTER_WORDS
    jmp .Lto_handler_\name

# The program's own entry takes the system call, unless the call comes from the entry's page: that
# is how the entry itself calls the handler. rcx and r11 are as SYSCALL set them.
# Live: as at .Lnot_plain_alien.
    # The program has an entry: above DISPATCH_ON the word is its address.
.Lprogram_entry_\name:
    mov rdx, [rbp + THREAD_dispatch]
    cmp rdx, DISPATCH_ON
    je .Lalien_call_\name
    # The call does not come from the entry's page.
    mov rsi, rcx
    xor rsi, rdx
    shr rsi, PAGE_SHIFT
    jz .Lalien_call_\name
    .if \supervisor
    # The exit below is to user mode.
    cmp byte ptr [rbp + THREAD_supervisor], 0
    jne .Lsaved_slow_unlocked_\name
    .endif
    # POINT OF NO RETURN: nothing below can fail. lthread_ex_regs checked that the entry's address
    # is a user's. No lock is needed: nothing is changed.
    mov rbp, rsp
    mov rsp, gs:[CPU_stack]
    push_interrupt_words gs:[CPU_scratch], USER_CS, rdx
    load rbp, rdx, rsi, rbp
    swapgs
    iretq

# Perhaps a native thread with an FPU state and no other flag.
# Live: rsp = caller's frame = its TCB if it is native, edx = caller's flags without FPU, rax = call
# number, message registers. All registers are saved.
.Lnative_with_fpu_\name:
    test edx, edx
    jnz .Lsaved_slow_unlocked_\name
    take_lock \locks, rsp, .Lsaved_slow_unlocked_\name
    # The caller still has no other flag: see take_lock.
    test dword ptr [rsp + THREAD_flags], ~FPU
    jnz .Lsaved_slow_\name
    # Which call it is: as above.
    and rax, ANY_SEND_TIMEOUT
    cmp rax, REPLY_AND_WAIT
    je .Lreply_with_fpu_\name
    cmp rax, {CALL}
    jne .Lsaved_slow_\name
    # It receives from the thread that it sends to. The user's rdx is only in the frame by now.
    cmp [rsp + FRAME_rdx], rdi
    je .Lcall_with_fpu_\name

# The slow path where all registers are saved. Live: nothing.
.Lsaved_slow_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lsaved_slow_unlocked_\name:
    slow_path {slow_syscall}, \clear, \supervisor

    .if \supervisor
# A direct call: as .Lalien_call, but threads and CPU keep their states, and the lock is left with
# the pair.
# Live: rsp = caller's frame, rbp = caller's TCB, rax = call number, rcx = ip.
.Ldirect_call_\name:
    mov r8, rax
    .if \locks
    # Another CPU may just have taken the lock, and so ended direct calls.
    mov eax, {PAIR}
    mov edx, {HELD}
    lock cmpxchg byte ptr gs:[{CPU_LOCK}], dl
    jne .Ldirect_calls_ended_\name
    .endif
    mov rbx, gs:[CPU_direct]
    # No selector has to be loaded.
    must_share_selectors rbx, .Lend_direct_calls_\name
    # POINT OF NO RETURN: nothing below can fail.
    mov gs:[CPU_client], rbp
    mov gs:[CPU_current], rbx
    mov [rbx + THREAD_lender], rbp
    test dword ptr [rbp + THREAD_flags], FPU
    jz .Ldirect_without_fpu_\name
    mov word ptr gs:[CPU_fpu_lent], 1
.Ldirect_without_fpu_\name:
    mov rdi, [rbp + THREAD_id]
    mov rsi, {SYSCALL_TAG}
    mov r9, rcx
    mov r10d, [rbp + THREAD_frame_index]
    xor r12d, r12d
    resume_native \locks, 1, {PAIR}
.Lend_direct_calls_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Ldirect_calls_ended_\name:
    mov rax, r8
    jmp .Lno_direct_call_\name

    .if \locks
# A pair left the lock: then it is taken now, and the caller serves a direct call.
# Live: as where the lock is taken, cl = what the lock was.
.Lfinds_lock_taken_\name:
    cmp cl, {PAIR}
    jne .Lslow_unlocked_\name
    mov rbx, gs:[CPU_client]
    .endif

# The handler serves a direct call. If it resumes the client and waits for anybody, threads and CPU
# keep their states.
# Live: rsp = caller's TCB, rbx = client's TCB, rax = call number, message registers.
.Lserves_client_\name:
    and rax, ANY_SEND_TIMEOUT
    cmp rax, REPLY_AND_WAIT
    jne .Lsettle_\name
    # It resumes the client, and no items go to it.
    cmp rdi, [rbx + THREAD_id]
    jne .Lsettle_\name
    test esi, {TAG_ITEMS}
    jnz .Lsettle_\name
    must_be_64_bit .Lsettle_\name
    read_frame .Lsettle_\name
    must_restore_by_sysret .Lsettle_\name
    # POINT OF NO RETURN: nothing below can fail. The FPU is as it was at the call.
    mov gs:[CPU_current], rbx
    mov qword ptr gs:[CPU_client], 0
    mov word ptr gs:[CPU_fpu_lent], 0
    mov rdi, rdx
    leave_to_alien \locks, 1, {PAIR}

# The client becomes a thread that waits for its handler, as `direct::settle` has it, and the call
# is served like any other. Live: as at .Lserves_client.
.Lsettle_\name:
    mov qword ptr gs:[CPU_client], 0
    .if \locks == 0
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
    .endif
    mov byte ptr [rbx + {THREAD_STATE_WORD}], {STATE_FAULTED}
    mov rax, [rsp + THREAD_id]
    mov [rbx + THREAD_partner], rax
    inc dword ptr [rsp + THREAD_waiters]
    mov byte ptr [rsp + {THREAD_STATE_WORD}], {STATE_READY}
    mov gs:[CPU_loaded], rsp
    rdtsc
    shl rdx, 32
    or rax, rdx
    add [rbx + THREAD_consumed], rax
    sub [rsp + THREAD_consumed], rax
    mov rax, [rsp + FRAME_orig_ax]
    mov rdx, [rsp + FRAME_rdx]
    jmp .Lsettled_\name
    .endif
.endm

# On a uniprocessor (up) no lock is needed: each slow path ends before the next fast path begins.
# The entries that clear no registers (unscrubbed) are for measurements only, and know no PCID.
fast_paths syscall_entry, 1, 1, 0, 0
fast_paths up_syscall_entry, 0, 1, 0, 0
fast_paths unscrubbed_syscall_entry, 1, 0, 0, 0
fast_paths unscrubbed_up_syscall_entry, 0, 0, 0, 0
fast_paths pcid_syscall_entry, 1, 1, 1, 0
fast_paths pcid_up_syscall_entry, 0, 1, 1, 0
fast_paths supervisor_syscall_entry, 1, 1, 0, 1
fast_paths supervisor_up_syscall_entry, 0, 1, 0, 1
fast_paths supervisor_pcid_syscall_entry, 1, 1, 1, 1
fast_paths supervisor_pcid_up_syscall_entry, 0, 1, 1, 1

# POINT OF NO RETURN: nothing below can fail.
# The page fault of the thread rbp becomes a message to its pager rbx, which is in an open wait.
# Live: rsp = the faulter's frame, rbp = its TCB, rbx = the pager's TCB, rdi = the pager's id,
# edx = error code. All registers are saved, and the lock is held.
.macro fault_path pcids, supervisor, fpu
    # The frame gets what a handler may want, and what the slow path reads when the fault is
    # forwarded to the handler (fault.rs: forward).
    mov qword ptr [rsp + FRAME_vector], VECTOR_PF
    mov [rsp + FRAME_error_code], rdx
    mov r8, cr2
    mov [rsp + FRAME_cr2], r8
    # The message: r8 = address, r9 = ip, r10 = index of the frame, r12 = whether a page is mapped
    # there, rsi = tag with the access as its label.
    mov r9, [rsp + FRAME_ip]
    mov r10d, [rbp + THREAD_frame_index]
    mov r12d, edx
    and r12d, {CODE_PRESENT}
    mov rsi, {READ_FAULT_TAG}
    test edx, {CODE_WRITE} | {CODE_FETCH}
    jz .Lfault_tag_\@
    mov rsi, {WRITE_FAULT_TAG}
    test edx, {CODE_FETCH}
    jz .Lfault_tag_\@
    mov rsi, {FETCH_FAULT_TAG}
    # A reply with TAG_FORWARD looks at the kind of this message (fault.rs: refused).
.Lfault_tag_\@:
    mov [rbp + {THREAD_MESSAGE_TAG}], rsi
    # The exception made ss null. The pager may run 32-bit code later, and SYSRET does not load all
    # of ss on AMD: see user_exception in entry.s.
    mov eax, KERNEL_SS
    mov ss, eax
    # The pager is also the handler: for a native thread the message then has the frame.
    cmp rdi, [rbp + THREAD_handler]
    je .Lfault_to_handler_\@
    # The words that the tag does not count are still the faulter's registers, which the pager must
    # not see.
.Lfault_clear_\@:
    xor r13d, r13d
    xor r14d, r14d
    leave_to_handler 1, \pcids, \supervisor, \fpu, 0

# The pager is the handler. An alien thread's handler sees its registers in the shared frame.
# Live: as at the start of fault_path, rsi = tag, r8 r9 r10 r12 = words.
.Lfault_to_handler_\@:
    test dword ptr [rbp + THREAD_flags], ALIEN
    jz .Lfault_of_native_\@
    leave_to_handler 1, \pcids, \supervisor, \fpu, 1
.Lfault_of_native_\@:
    # A native thread's frame is copied to the pager's UTCB, with the bases.
    rdfsbase rax
    mov [rsp + FRAME_fs_base], rax
    swapgs
    rdgsbase rax
    swapgs
    mov [rsp + FRAME_gs_base], rax
    mov rax, rdi
    lea r11, [rsi + {MORE_WORDS}]
    mov rdi, [rbx + THREAD_utcb]
    add rdi, {UTCB_WORDS}
    mov rsi, rsp
    mov ecx, FRAME_WORDS
    rep movsq
    mov rsi, r11
    mov rdi, rax
    jmp .Lfault_clear_\@
.endm

# The entry for page faults; with `nofast` common_entry takes its place. `pcids`: as in fast_paths.
# It takes the lock on a uniprocessor too, where it is free or with a pair.
# Live: the hardware's words are on the kernel stack, all registers are the interrupted program's.
.macro page_fault_path name, pcids, supervisor
symbol \name, 64
    push VECTOR_PF
    # The fault comes from user mode.
    test byte ptr [rsp + 24], 3
    jz .Lfault_in_ring_0_\name
.Lfault_in_user_mode_\name:
    save_after_vector
    lea rcx, [rsp - FRAME_r15]
    mov rsp, gs:[CPU_stack]
    clear_flags
    mov rdx, [rsp + ERROR_CODE]
    mov rsp, rcx
    mov rbp, gs:[CPU_current]
    # The thread has no flag that the slow path must look at.
    test dword ptr [rbp + THREAD_flags], ~(ALIEN | FPU | DISPATCHED)
    jnz .Lfault_slow_unlocked_\name
    .if \supervisor
    # It may lack what its own space has (space.rs: show_in_present).
    cmp byte ptr [rbp + THREAD_any_space], 0
    jne .Lfault_slow_unlocked_\name
    .endif
    # It is not sigma0's: the kernel serves those faults itself.
    cmp dword ptr [rbp + THREAD_task_number], TASK_SIGMA0
    je .Lfault_slow_unlocked_\name
    take_lock 1, rbp, .Lfault_finds_lock_held_\name
    # The pager exists. It is in the thread's clan, or its chief: CROSS_CLAN_HANDLER is not set.
.Lfault_ends_direct_calls_\name:
    mov rdi, [rbp + THREAD_pager]
    look_up .Lfault_slow_\name
    # The pager may run next, and SYSRET can return to it.
    must_take_message .Lfault_slow_\name
    # The pager accepts a message from any thread.
    must_be_in_open_wait 1, 0, .Lfault_with_fpu_\name
    fault_path \pcids, \supervisor, 0

# At ring 0 the fault is a bug of the kernel's, or a thread's in supervisor mode. Stack: as at
# common_entry. Live: all registers are the interrupted program's.
.Lfault_in_ring_0_\name:
    from_ring_0 kernel_entry
    jmp .Lfault_in_user_mode_\name

# The thread may call its handler directly, and has made no call now: then the lock is taken here,
# and its release ends the direct calls.
# Live: as where the lock is taken, cl = what the lock was.
.Lfault_finds_lock_held_\name:
    cmp cl, {PAIR}
    je .Lfault_ends_direct_calls_\name
    jmp .Lfault_slow_unlocked_\name

# The pager has an FPU state, or is not in an open wait.
# Live: as at the start of fault_path.
.Lfault_with_fpu_\name:
    must_be_in_open_wait 1, 1, .Lfault_slow_\name
    fault_path \pcids, \supervisor, 1

# The slow path. All registers are saved. Live: nothing; the error code is on the kernel stack.
.Lfault_slow_\name:
    mov byte ptr gs:[{CPU_LOCK}], {FREE}
.Lfault_slow_unlocked_\name:
    mov edi, VECTOR_PF
    jmp user_exception
.endm

page_fault_path page_fault_entry, 0, 0
page_fault_path pcid_page_fault_entry, 1, 0
page_fault_path supervisor_page_fault_entry, 0, 1
page_fault_path supervisor_pcid_page_fault_entry, 1, 1

# Which entry is used: system_call_entry (fast.rs) and fill_idt (tables.rs) count them.
.pushsection .rodata
symbol syscall_entries, 8
    .quad up_syscall_entry, syscall_entry, pcid_up_syscall_entry, pcid_syscall_entry
    .quad supervisor_up_syscall_entry, supervisor_syscall_entry
    .quad supervisor_pcid_up_syscall_entry, supervisor_pcid_syscall_entry
    .quad unscrubbed_up_syscall_entry, unscrubbed_syscall_entry
symbol page_fault_entries, 8
    .quad page_fault_entry, pcid_page_fault_entry
    .quad supervisor_page_fault_entry, supervisor_pcid_page_fault_entry
.popsection
