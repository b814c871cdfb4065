# SPDX-License-Identifier: GPL-2.0-only
# Files of x86's made to find what they look for where it is here.

# A thread's selectors and bases: in its frame.
s/(task|child|p)->thread\.(fs|gs)index/l4_selectors(\1)->\2/
s/(task|child|tsk)->thread\.(ds|es)\b/l4_selectors(\1)->\2/
s/(child|p)->thread\.(fs|gs)base/\1->thread.frame->\2_base/
s/x86_(fs|gs)base_read_task\((\w+)\)/\2->thread.frame->\1_base/
s/x86_(fs|gs)base_write_task\((\w+), value\)/\2->thread.frame->\1_base = value/
# A descriptor is its lthread's, which gets it before it runs on, whoever has set it.
s/if \(t == &current->thread\)//
s/task == current|boot_cpu_has\(X86_FEATURE_BPEXT\)/false/

# The kernel's addresses: above the programs'.
/^static inline bool within_cpu_entry/,/^}/d
s/within_cpu_entry\([^)]*\)/bp_end >= TASK_SIZE_MAX/

# FPU state: fetched from the lthread, and stored before the thread runs on.
s/^#include "xstate.h"/#include <asm\/fpu\/xstate.h>/
/^#include "(context|internal|legacy)/d
/^static void (sync_fpstate|fpu_force_restore)/,/^}/d
s/\bsync_fpstate\(.*\)/l4_fpu_fetch(target)/
s/fpu_force_restore\(fpu\)/l4_fpu_change(target)/
s/(__fpstate\.|fpstate->)regs\./regs->/
s/copy_xstate_to_uabi_buf/l4_put_xstate/
s/copy_uabi_from_kernel_to_xstate\(fpu->fpstate, (.*), &.*\)/l4_get_xstate(fpu, \1)/
s/fpu_user_cfg\.max_size/keel_kip->fpu_size/
s/cpu_feature_enabled\(\w+\)|use_xsave\(\)/true/
# Of its core only what an exception means.
/^#include <asm\/fpu\/sched.h>/d
/^#include <asm\/irq_regs.h>/,/^int fpu__exception_code/{/^int fpu__exc/!d}
/^noinstr void fpu_idle_fpregs/,/^}/d

# A feature that was cleared is not found again.
/cpu_caps_cleared/d

# What may be mapped is asked of the memory, not of the processor.
/^bool pfn_modify_allowed/,/^}/d

# Steps from branch to branch need a register of the kernel below: those are single steps.
/^void set_task_blockstep/,/^}/d
s/set_task_blockstep\(.*\);/{ }/
s/test_tsk_thread_flag\(child, TIF_BLOCKSTEP\)/false/

# Modules run from where they are loaded, and nothing of theirs is patched then.
s/PAGE_KERNEL/PAGE_KERNEL_EXEC/
s/VM_FLUSH_RESET_PERMS \| //
s/me->state == MODULE_STATE_UNFORMED/true/
/^#include <asm\/unwind.h>/d
/^int module_finalize/,$d

# Delays by the time stamp counter, and by no other way to wait.
s/^#include <asm\/(mwait|timer).h>/#include <asm\/timex.h>/
/^static void delay_halt|^void (__init )?use_(tpause|mwaitx)/,/^}/d
/delay_halt_fn/d
s/rdtsc(_ordered)?\(\)/l4_cycles()/
s/this_cpu_read\(cpu_info.loops_per_jiffy\) \? ://
