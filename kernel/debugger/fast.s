# SPDX-License-Identifier: GPL-2.0-only
# What the fast paths (kernel/src/arch/x86_64/entry/fast.s) check and do in the debugger's build,
# and nothing in others. gs is the kernel's.

# Check: the registers in the processor are those of the thread whose TCB is in `caller`.
.macro check_loaded caller
    .if {CHECKED}
    cmp gs:[CPU_loaded], \caller
    je .Lis_loaded_\@
    ud2
.Lis_loaded_\@:
    .endif
.endm

# Stretches the time between the first look at a caller's flags and the lock, once (check.rs:
# wait_for_ticks). Uses rcx rbx rbp r11 r15.
.macro delay_once
    .if {CHECKED}
    xor ecx, ecx
    xchg gs:[CPU_delay], rcx
    lea r11, [rip + .Ldelayed_\@]
    jmp wait_for_ticks
.Ldelayed_\@:
    .endif
.endm
