// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jumps in place of system call instructions, in a program in the server (kernel/inside.c). Its
 * first call by an instruction comes as a message; then the instruction is replaced, if the code
 * around it is one of two kinds that compilers and the C library make:
 *
 *	mov $number, %eax; syscall		all 7 bytes, or 9 with %rax
 *	syscall; cmp $constant, %rax		all 8 bytes, or 7 with %eax
 *
 * by a jump through a pointer, 7 bytes, which needs no register and no stack. The pointer leads to a
 * stub for this place (l4_stub_template, kernel/inside_gate.S), which does what was replaced, and
 * calls Linux through the gate: the first word of the stubs. They are a private mapping of the
 * process, so a forked child has them, too; its gate is 0, and the stubs execute the instruction.
 *
 * A thread may be in the middle of what is replaced, or jump there. Of the first kind the middle is
 * the instruction itself: there the jump's address has the bytes of UD2, by the place of the stubs,
 * and l4_stub_undefined() makes the thread go on in the stub. Of the second kind it is the
 * comparison. No thread is there: whoever made this call by a message continues in the stub. A jump
 * to it is looked for in the code around, and if there may be one, nothing is replaced. On several
 * processors code changes only while the program has one thread.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/nops.h>
#include <asm/text-patching.h>
#include <asm/unaligned.h>

#define LEN_SYSCALL 2
#define LEN_MOV 5		/* mov $constant, %eax */
#define LEN_MOV_RAX 7
#define LEN_NOP 2		/* before the jump, in place of the longer one */
#define LEN_JMP 7		/* jmp *constant */
#define LEN_CMP_RAX 6		/* cmp $constant, %rax */
#define LEN_CMP_EAX 5
/* How far away a jump to a replaced comparison is looked for. */
#define NEAR 1024

struct l4_stub {
	unsigned long code;		/* address of `before` */
	u8 before[LEN_MOV];
	u8 call[27];
	u8 after[LEN_CMP_RAX];
	u8 rest[10];
	unsigned long back;
} __packed;
static_assert(sizeof(struct l4_stub) == L4_STUB_SIZE);

#define STUBS (L4_STUBS_SIZE / sizeof(struct l4_stub))

extern const struct l4_stub l4_stub_template;

/* What was replaced in the only program: protected by l4_stubs_lock. The first one is the gate. */
static DEFINE_MUTEX(l4_stubs_lock);
static unsigned long l4_stub_places[STUBS];	/* of the instructions, which are UD2 now, or 0 */
static unsigned int l4_stub_count;
static u8 l4_stub_code[2 * NEAR];

/* Writes to the current process's memory, which it may not be able to write. */
static bool l4_stub_write(unsigned long address, const void *from, int size)
{
	return access_process_vm(current, address, (void *)from, size, FOLL_FORCE | FOLL_WRITE) == size;
}

static unsigned long l4_stub_address(unsigned int index)
{
	return L4_STUBS + index * sizeof(struct l4_stub);
}

/* The current process begins in the server: maps the stubs, and opens the gate. */
void l4_stubs_begin(void)
{
	unsigned long gate = (unsigned long)l4_inside_gate;

	l4_stub_count = 0;
	if (vm_mmap(NULL, L4_STUBS, L4_STUBS_SIZE, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, 0) != L4_STUBS)
		return;
	if (!l4_stub_write(L4_STUBS, &gate, sizeof(gate)))
		return;
	current->mm->context.stubs = true;
	l4_stub_count = 1;
}

/* A forked child begins to run outside of the server: closes its gate. Returns 0 or -ENOMEM. */
int l4_stubs_close(void)
{
	const unsigned long gate = 0;

	current->mm->context.stubs = false;
	return l4_stub_write(L4_STUBS, &gate, sizeof(gate)) ? 0 : -ENOMEM;
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

/* Reads the code around an instruction, of its mapping only. Returns its first address, or 0. */
static unsigned long l4_stub_read(unsigned long at, unsigned long *n)
{
	struct vm_area_struct *vma;
	unsigned long start = 0;

	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, at);
	if (vma && vma->vm_start + LEN_MOV <= at && at + LEN_JMP + 1 <= vma->vm_end) {
		start = max(vma->vm_start, at - NEAR);
		*n = min(vma->vm_end, at + NEAR) - start;
	}
	mmap_read_unlock(current->mm);
	return start && !copy_from_user(l4_stub_code, (void __user *)start, *n) ? start : 0;
}

/*
 * Fills in a stub for the call of the current thread, whose instruction is before regs->ip, and what
 * is to replace the code before stub->back. Returns the size of that, or 0 if the code is of no
 * known kind.
 */
static unsigned int l4_stub_make(struct pt_regs *regs, struct l4_stub *stub, u8 *jump)
{
	static const u8 nop5[] = { BYTES_NOP5 };
	unsigned long at = regs->ip - LEN_SYSCALL, n, start = l4_stub_read(at, &n), size;
	const u8 *code = l4_stub_code + (at - start);
	const u32 number = regs->orig_ax;

	if (!start || code[0] != 0x0f || code[1] != 0x05)
		return 0;
	size = code[2] == 0x48 && code[3] == 0x3d ? LEN_CMP_RAX : code[2] == 0x3d ? LEN_CMP_EAX : 0;
	if (size && !l4_stub_jump_to(l4_stub_code, n, start, regs->ip)) {
		memcpy(stub->before, nop5, LEN_MOV);
		memcpy(stub->after, code + LEN_SYSCALL, size);
		stub->back = regs->ip + size;
		regs->ip = stub->code + offsetof(struct l4_stub, after) - offsetof(struct l4_stub, before);
		return LEN_SYSCALL + size;
	}
	if (get_unaligned((u32 *)(code - sizeof(number))) != number)
		return 0;
	stub->before[0] = 0xb8;
	put_unaligned(number, (u32 *)(stub->before + 1));
	stub->back = regs->ip;
	if (code[-LEN_MOV] == 0xb8)
		return LEN_MOV + LEN_SYSCALL;
	if (code[-LEN_MOV_RAX] != 0x48 || code[-LEN_MOV_RAX + 1] != 0xc7 || code[-LEN_MOV_RAX + 2] != 0xc0)
		return 0;
	memmove(jump + LEN_NOP, jump, LEN_JMP);
	memcpy(jump, (u8 []){ 0x66, 0x90 }, LEN_NOP);
	return LEN_MOV_RAX + LEN_SYSCALL;
}

/* The current thread, which is in the server, made a call by an instruction. May sleep. */
void l4_stub_replace(struct pt_regs *regs)
{
	struct l4_stub stub = l4_stub_template;
	u8 jump[LEN_MOV_RAX + LEN_SYSCALL] = { 0xff, 0x24, 0x25, [LEN_JMP] = 0x90 };
	unsigned long ip = regs->ip, slot;
	unsigned int size = 0;

	if (!current->mm->context.stubs || l4_stub_count == STUBS)
		return;
	mutex_lock(&l4_stubs_lock);
	slot = l4_stub_address(l4_stub_count);
	stub.code = slot + offsetof(struct l4_stub, before);
	put_unaligned((u32)slot, (u32 *)(jump + 3));
	if (nr_cpu_ids == 1 || atomic_read(&current->mm->mm_users) == 1)
		size = l4_stub_make(regs, &stub, jump);
	if (size && l4_stub_write(slot, &stub, sizeof(stub)) &&
	    l4_stub_write(stub.back - size, jump, size))
		l4_stub_places[l4_stub_count++] = stub.back == ip ? ip - LEN_SYSCALL : 0;
	else
		regs->ip = ip;
	mutex_unlock(&l4_stubs_lock);
}

/*
 * An undefined instruction of the current thread, which is in the server. Returns true if it was
 * the replaced instruction of a system call: the thread goes on in the stub.
 */
bool l4_stub_undefined(struct pt_regs *regs)
{
	unsigned int i;

	for (i = 1; i < l4_stub_count; i++)
		if (l4_stub_places[i] == regs->ip) {
			regs->ip = l4_stub_address(i) + offsetof(struct l4_stub, call);
			return true;
		}
	return false;
}
