// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jumps in place of system call instructions, in a program in the server (kernel/inside.c). Its
 * first call by an instruction comes as a message; then the instruction is replaced, if the code
 * around it is one of two kinds that compilers and the C library make:
 *
 *	mov $number, %eax; syscall		all 7 bytes, or 9 with %rax
 *	syscall; cmp $constant, %rax		all 8 bytes, or 7 with %eax
 *
 * by a jump through a pointer, 7 bytes, which needs no register and no stack. The pointer leads to
 * a stub for this place (l4_stub_template, kernel/inside_gate.S), which does what was replaced, and
 * calls Linux through the gate: the first word of the stubs. They are a private mapping of the
 * process, so a forked child has them, too; its gate is 0, and the stubs execute the instruction.
 * If the program unmaps them, nothing more is replaced. A program with a gate of its own has none:
 * what follows an instruction is where a call through that gate returns to.
 *
 * A thread may be in the middle of what is replaced, or jump there. Of the first kind the middle is
 * the instruction itself: there the jump's address has the bytes of UD2, by the place of the stubs,
 * and l4_stub_undefined() makes the thread go on in the stub. Of the second kind it is the
 * comparison. No thread is there: whoever made this call by a message continues in the stub. A jump
 * to it is looked for in the code around, and if there may be one, nothing is replaced. On several
 * processors code changes only while the program has one thread. If a call found several, a signal
 * frame may lead to its comparison, and the second kind stays as it is from then on.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/nops.h>
#include <asm/text-patching.h>
#include <asm/ukl_gate.h>
#include <asm/unaligned.h>

#define LEN_MOV 5		/* mov $constant, %eax */
#define LEN_MOV_RAX 7
#define LEN_NOP 2		/* before the jump, in place of the longer one */
#define LEN_JMP 7		/* jmp *constant */
#define LEN_CMP_RAX 6		/* cmp $constant, %rax */
#define LEN_CMP_EAX 5
#define REX_B 0x41		/* makes it another register */
#define UNKNOWN_BITS 6
/* How far away a jump to a replaced comparison is looked for. */
#define NEAR 1024

struct l4_stub {
	unsigned long code;		/* address of `before` */
	u8 before[LEN_MOV];
	u8 call[25];
	u8 after[LEN_CMP_RAX];
	u8 rest[12];
	unsigned long back;
} __packed;
static_assert(sizeof(struct l4_stub) == L4_STUB_SIZE);

#define STUBS (L4_STUBS_SIZE / sizeof(struct l4_stub))

extern const struct l4_stub l4_stub_template;

static const u8 l4_stub_jump[] = { 0xff, 0x24, 0x25 };	/* and the pointer's address */

/* Protects all of this, which is about the only program in the server. */
static DEFINE_MUTEX(l4_stubs_lock);
static unsigned int l4_stub_count;	/* the gate is the first one */
static bool l4_stubs_first_kind;	/* alone is replaced */
static u8 l4_stub_code[2 * NEAR];
/* Places that are of no known kind, by a hash: they are not read again. Read without the lock. */
static unsigned long l4_stubs_unknown[1 << UNKNOWN_BITS];

static int l4_stubs_mremap(const struct vm_special_mapping *mapping, struct vm_area_struct *vma)
{
	return -EINVAL;
}

static struct page *l4_stub_pages[L4_STUBS_SIZE / PAGE_SIZE + 1];
static const struct vm_special_mapping l4_stubs_mapping = {
	.name = "[keel]",
	.pages = l4_stub_pages,
	.mremap = l4_stubs_mremap,
};

/* Writes to the current process's memory, which it may not be able to write. */
static bool l4_stub_write(unsigned long address, const void *from, int size)
{
	return access_process_vm(current, address, (void *)from, size, FOLL_FORCE | FOLL_WRITE) == size;
}

/* Whether the current process has its stubs still. */
static bool l4_stubs_are_mapped(void)
{
	struct vm_area_struct *vma;
	bool mapped;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, L4_STUBS);
	mapped = vma && vma_is_special_mapping(vma, &l4_stubs_mapping) &&
		 vma->vm_end == L4_STUBS + L4_STUBS_SIZE;
	mmap_read_unlock(current->mm);
	return mapped;
}

/* The current process begins in the server: maps the stubs, and opens the gate. */
void l4_stubs_begin(void)
{
	unsigned long gate = (unsigned long)l4_inside_gate;
	unsigned int i;

	l4_stub_count = 0;
	l4_stubs_first_kind = false;
	memset(l4_stubs_unknown, 0, sizeof(l4_stubs_unknown));
	for (i = 0; i < L4_STUBS_SIZE / PAGE_SIZE; i++)
		if (!l4_stub_pages[i])
			l4_stub_pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO | __GFP_NOFAIL);
	mmap_write_lock(current->mm);
	_install_special_mapping(current->mm, L4_STUBS, L4_STUBS_SIZE, VM_READ | VM_EXEC |
				 VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC, &l4_stubs_mapping);
	mmap_write_unlock(current->mm);
	if (!l4_stubs_are_mapped() || !l4_stub_write(L4_STUBS, &gate, sizeof(gate)))
		return;
	current->mm->context.gate = L4_STUBS;
	l4_stub_count = 1;
}

/*
 * A forked child begins to run outside of the server: closes its gate, unless it has put something
 * else there. Otherwise, and if that fails, l4_left_gate() serves its calls by the gate.
 */
void l4_gate_close(void)
{
	struct ukl_gate __user *own = (void __user *)current->mm->context.gate;
	const struct ukl_gate closed = { };
	u64 entry;

	if (current->mm->context.gate != L4_STUBS) {
		if (!get_user(entry, &own->entry) && entry == (unsigned long)l4_bypass_gate)
			copy_to_user(own, &closed, sizeof(closed));
	} else if (l4_stubs_are_mapped()) {
		l4_stub_write(L4_STUBS, &closed.entry, sizeof(closed.entry));
	}
	current->mm->context.gate = 0;
}

/* Returns true if some bytes of the code, from `base` on, may be a jump to the address. */
static bool l4_stub_jump_to(const u8 *code, unsigned long n, unsigned long base, unsigned long to)
{
	unsigned long i;

	for (i = 0; i + 6 <= n; i++)
		if (((code[i] == JMP8_INSN_OPCODE || (code[i] & 0xf0) == 0x70) &&
		     base + i + 2 + (s8)code[i + 1] == to) ||
		    (code[i] == JMP32_INSN_OPCODE &&
		     base + i + 5 + get_unaligned((s32 *)&code[i + 1]) == to) ||
		    (code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80 &&
		     base + i + 6 + get_unaligned((s32 *)&code[i + 2]) == to))
			return true;
	return false;
}

/*
 * Reads the code around an instruction, of its mapping only, which no other process shares. Returns
 * its first address, or 0.
 */
static unsigned long l4_stub_read(unsigned long at, unsigned long *n)
{
	struct vm_area_struct *vma;
	unsigned long start = 0;

	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, at);
	if (vma && !(vma->vm_flags & VM_SHARED) &&
	    vma->vm_start + LEN_MOV_RAX < at && at + LEN_SYSCALL + LEN_CMP_RAX <= vma->vm_end) {
		start = max(vma->vm_start, at - NEAR);
		*n = min(vma->vm_end, at + NEAR) - start;
	}
	mmap_read_unlock(current->mm);
	return start && !copy_from_user(l4_stub_code, (void __user *)start, *n) ? start : 0;
}

/* Returns the address of the stub to which code jumps, or 0. */
static unsigned long l4_stub_of(const u8 *code)
{
	u32 stub = get_unaligned((u32 *)(code + sizeof(l4_stub_jump)));

	return !memcmp(code, l4_stub_jump, sizeof(l4_stub_jump)) && stub >= L4_STUBS &&
	       stub < L4_STUBS + L4_STUBS_SIZE && IS_ALIGNED(stub, L4_STUB_SIZE) ? stub : 0;
}

/*
 * Fills in a stub for the call of the current thread, whose instruction is before regs->ip, and
 * what is to replace the code before stub->back. Returns the size of that, or 0 if the code is of
 * no known kind. Another thread may have replaced it meanwhile.
 */
static unsigned int l4_stub_make(struct pt_regs *regs, struct l4_stub *stub, u8 *jump)
{
	static const u8 nop5[] = { BYTES_NOP5 };
	unsigned long at = regs->ip - LEN_SYSCALL, n, start = l4_stub_read(at, &n), size;
	const u8 *code = l4_stub_code + (at - start);
	const u32 number = regs->orig_ax;

	if (!start)
		return 0;
	if (l4_stub_of(code))
		regs->ip = l4_stub_of(code) + offsetof(struct l4_stub, after);
	if (code[0] != 0x0f || code[1] != 0x05)
		return 0;
	size = code[2] == 0x48 && code[3] == 0x3d ? LEN_CMP_RAX : code[2] == 0x3d ? LEN_CMP_EAX : 0;
	if (size && !l4_stubs_first_kind && !l4_stub_jump_to(l4_stub_code, n, start, regs->ip)) {
		memcpy(stub->before, nop5, LEN_MOV);
		memcpy(stub->after, code + LEN_SYSCALL, size);
		stub->back = regs->ip + size;
		return LEN_SYSCALL + size;
	}
	if (get_unaligned((u32 *)(code - sizeof(number))) != number)
		return 0;
	stub->before[0] = 0xb8;
	put_unaligned(number, (u32 *)(stub->before + 1));
	stub->back = regs->ip;
	if (code[-LEN_MOV] == 0xb8 && code[-LEN_MOV - 1] != REX_B)
		return LEN_MOV + LEN_SYSCALL;
	if (memcmp(code - LEN_MOV_RAX, (u8 []){ 0x48, 0xc7, 0xc0 }, 3))
		return 0;
	memmove(jump + LEN_NOP, jump, LEN_JMP);
	memcpy(jump, (u8 []){ 0x66, 0x90 }, LEN_NOP);
	return LEN_MOV_RAX + LEN_SYSCALL;
}

/* Writes a stub, and what leads to it. */
static bool l4_stub_put(unsigned long address, const struct l4_stub *stub, const u8 *jump,
			unsigned int size)
{
	return l4_stub_count < STUBS && l4_stubs_are_mapped() &&
	       l4_stub_write(address, stub, sizeof(*stub)) &&
	       l4_stub_write(stub->back - size, jump, size);
}

/* The current thread, which is in the server, made a call by an instruction. May sleep. */
void l4_stub_replace(struct pt_regs *regs)
{
	struct l4_stub stub = l4_stub_template;
	u8 jump[LEN_MOV_RAX + LEN_SYSCALL] = { 0xff, 0x24, 0x25, [LEN_JMP] = 0x90 };
	unsigned long address, *unknown = &l4_stubs_unknown[hash_long(regs->ip, UNKNOWN_BITS)];
	unsigned int size;

	if (current->mm->context.gate != L4_STUBS || READ_ONCE(*unknown) == regs->ip)
		return;
	mutex_lock(&l4_stubs_lock);
	address = L4_STUBS + l4_stub_count * sizeof(stub);
	stub.code = address + offsetof(struct l4_stub, before);
	put_unaligned((u32)address, (u32 *)(jump + sizeof(l4_stub_jump)));
	if (nr_cpu_ids > 1 && !current_is_single_threaded()) {
		l4_stubs_first_kind = true;
		goto out;
	}
	size = l4_stub_make(regs, &stub, jump);
	/* What is in two pages is written in two steps, and a thread might see the first one. */
	if (!size || ((stub.back - size) ^ (stub.back - 1)) & PAGE_MASK) {
		WRITE_ONCE(*unknown, regs->ip);
	} else if (l4_stub_put(address, &stub, jump, size)) {
		l4_stub_count++;
		if (stub.back != regs->ip)
			regs->ip = address + offsetof(struct l4_stub, after);
	} else {
		l4_stubs_first_kind = true;	/* this thread will be at the comparison */
	}
out:
	mutex_unlock(&l4_stubs_lock);
}

/*
 * An undefined instruction of the current thread, which is in the server or a forked child. Returns
 * true if it was the replaced instruction of a system call: the thread goes on in the stub. May
 * sleep.
 */
bool l4_stub_undefined(struct pt_regs *regs)
{
	unsigned long stub;
	u8 code[LEN_JMP];

	if (copy_from_user(code, (void __user *)(regs->ip - LEN_MOV), LEN_JMP) ||
	    !l4_stubs_are_mapped())
		return false;
	stub = l4_stub_of(code);
	if (stub)
		regs->ip = stub + offsetof(struct l4_stub, call);
	return stub;
}
