# SPDX-License-Identifier: GPL-2.0-only
# From the boot loader (32-bit protected mode, paging off) to Rust (64-bit, upper half). Application
# processors (APs) start in real mode at ap_start and join at long_mode. All of it is linked, and
# runs, at its physical address, with interrupts off.
#
# The boot page tables map the first 4 GB with 2 MB pages twice: one-to-one, which is not used after
# the jump to Rust, and at the direct map. They map the first GB once more, at -2 GB.

# Magic numbers of the headers for multiboot 1 and 2, and the flags of the first: modules page
# aligned, memory information, addresses in the header.
.set MB1_MAGIC, 0x1badb002
.set MB1_FLAGS, 1 | 1 << 1 | 1 << 16
.set MB2_MAGIC, 0xe85250d6
# EFER, and its bits: SYSCALL, long mode, no-execute.
.set MSR_EFER, 0xc0000080
.set EFER, 1 | 1 << 8 | 1 << 11

.section .boot, "ax"
.code32
.balign 8
multiboot1:
    .long MB1_MAGIC, MB1_FLAGS, -(MB1_MAGIC + MB1_FLAGS)
    .long multiboot1, _load_start, _load_end, _boot_end, start32
.balign 8
multiboot2:
    .long MB2_MAGIC, 0, multiboot2_end - multiboot2, -(MB2_MAGIC + multiboot2_end - multiboot2)
    # Tags: addresses, the entry, a framebuffer if there can be one, modules page aligned, the end.
    .long 2, 24, multiboot2, _load_start, _load_end, _boot_end
    .long 3, 12, start32, 0
    .long 1 << 16 | 5, 20, 0, 0, 0, 0
    .long 6, 8, 0, 8
multiboot2_end:

# The boot loader starts the kernel here. Live: eax = the loader's magic number, ebx = address of
# its information.
.globl start32
start32:
    cli
    cld
    mov [start_argument], eax
    mov esi, ebx

# Whether segments have limits, which an emulator may leave out: a word beyond a segment's limit
# raises #GP (Intel SDM volume 3, 5.3). No other exception occurs here.
    mov esp, offset boot_stack_top_physical
    lgdt [boot_gdtr]
    mov eax, offset .Lbeyond
    mov [limit_gate], ax
    shr eax, 16
    mov [limit_gate + 6], ax
    lidt [limit_idtr]
    mov eax, 0x18
    mov es, eax
    mov eax, es:[4]
    jmp long_mode
.Lbeyond:
    mov byte ptr [segment_limits], 1

# Switches to long mode (Intel SDM volume 3, 9.8.5). An AP has no data segment yet, so data is read
# through cs. CR4 and EFER are loaded whole: what the firmware switched on (five levels of tables,
# shadow stacks, protection keys, FRED, AMD's FFXSR) would change how the CPU reads the kernel's
# tables and what its instructions do.
# Live: esi = address of the loader's information, on the boot CPU.
long_mode:
    mov eax, {CR4}
    mov cr4, eax
    mov eax, cs:[start_tables]
    mov cr3, eax
    mov ecx, MSR_EFER
    mov eax, EFER
    xor edx, edx
    wrmsr
    mov eax, {CR0}
    mov cr0, eax
    lgdt cs:[boot_gdtr]
    jmp fword ptr cs:[slow_target]
.balign 8
boot_gdt:
    # 64-bit code, 32-bit code, one byte of data.
    .quad 0, 0x00af9b000000ffff, 0x00cf9b000000ffff, 0x0040930000000000
boot_gdtr:
    .short 31
    .long boot_gdt
# Where #GP enters meanwhile, by an interrupt gate; and whether it did.
limit_gate:
    .short 0, 0x10, 0x8e00, 0
limit_idtr:
    .short {GP} * 8 + 7
    .long limit_gate - {GP} * 8
.globl segment_limits
segment_limits:
    .long 0
slow_target:
    .long start64
    .short 0x08

# The stack, the Rust function, its argument and the page table that a CPU starts with. These are
# the boot CPU's; smp.rs writes those of each AP (fill) before it starts the AP.
.balign 8
.globl beginning
beginning:
    .quad boot_stack_top, {boot}
start_argument:
    .quad 0
start_tables:
    .quad boot_pml4_physical

# In 64-bit mode. Calls the Rust function of `beginning`, which does not return.
# Live: esi = address of the loader's information, on the boot CPU; it is the second argument.
.code64
start64:
    xor eax, eax
    .irp segment, ds, es, ss, fs, gs
    mov \segment, eax
    .endr
    mov rsp, [rip + beginning]
    mov rdi, [rip + start_argument]
    xor ebp, ebp
    call [rip + beginning + 8]
    ud2

# An AP starts here, in real mode, with interrupts off: smp.rs copies this code to the start of a
# page below 1 MB, whose number is the vector of the startup IPI; cs is its segment. `start_tables`
# then maps the first 2 MB one-to-one, and the kernel's half.
.code16
.globl ap_start
ap_start:
    cli
    cld
    lgdt cs:[GDTR]
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    jmp fword ptr cs:[TARGET]
.set GDTR, . - ap_start
    .short 23
    .long boot_gdt
.set TARGET, . - ap_start
    .long long_mode
    .short 0x10
.globl ap_end
ap_end:

.code64
# The tables that the boot CPU starts with: the first 4 GB one-to-one and as the direct map, and the
# kernel's image. Rust completes them (paging.rs: finish_kernel_map).
.section .data.boot, "aw"
.balign 4096
.globl boot_pml4, boot_pdpt, boot_pdpt_top, boot_pd, boot_stack_top
boot_pml4:
    .quad boot_pdpt_physical + {TABLE}
    .skip 255 * 8
    .quad boot_pdpt_physical + {TABLE}
    .skip 254 * 8
    .quad boot_pdpt_top_physical + {TABLE}
boot_pdpt:
    .irp number, 0, 1, 2, 3
    .quad boot_pd_physical + \number * 4096 + {TABLE}
    .endr
    .skip 508 * 8
boot_pdpt_top:
    .skip 510 * 8
    .quad boot_pd_physical + {TABLE}
    .skip 8
boot_pd:
.set page, {BIG_PAGE}
.rept 4 * 512
    .quad page
    .set page, page + 0x200000
.endr
.section .bss.boot, "aw", @nobits
.balign 4096
    .skip {BOOT_STACK}
boot_stack_top:
.text
