// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to user memory by a walk of the logical page tables: the page is reached
 * in the direct map. Where the tables do not allow the access Linux's fault
 * handling runs, unless page faults are disabled. Between a walk and the end of a
 * copy within the page nothing sleeps, so on one processor the page stays.
 */
#include <linux/export.h>
#include <linux/futex.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/futex.h>
#include <asm/l4.h>

/* The fault that the access would have caused; false where it is an error. */
static bool fault_in(unsigned long address, unsigned long right)
{
	struct mm_struct *mm = current->mm;
	bool unlocked = false;
	struct vm_area_struct *vma;
	int error;

	if (faulthandler_disabled())
		return false;
	vma = lock_mm_and_find_vma(mm, address, NULL);
	if (!vma)
		return false;
	error = fixup_user_fault(mm, address,
				 right & KEEL_FPAGE_WRITE ? FAULT_FLAG_WRITE : 0, &unlocked);
	mmap_read_unlock(mm);
	return !error;
}

/*
 * The leaf table of the last access: a program's accesses come in crowds. Entries
 * are always read anew. A leaf table's end makes this void (asm/pgalloc.h).
 */
struct mm_struct *l4_walk_mm;
static unsigned long walk_region;
static pte_t *walk_table;

/* The entry of an address after a whole walk and, if need be, a fault; NULL: EFAULT. */
static noinline pte_t *walk(unsigned long address, unsigned long right)
{
	pte_t *ptep;

	if (!current->mm)
		return NULL;
	for (;;) {
		ptep = l4_find_pte(current->mm, address);
		if (ptep && l4_pte_use(ptep, right))
			break;
		if (!fault_in(address, right))
			return NULL;
	}
	if (l4_is_device(*ptep))
		return NULL;
	l4_walk_mm = current->mm;
	walk_region = address >> PMD_SHIFT;
	walk_table = ptep - pte_index(address);
	return ptep;
}

/* Where the byte at a user address lies, with the access noted; NULL: EFAULT. */
static __always_inline void *user_byte(unsigned long address, unsigned long right)
{
	unsigned long bits = _PAGE_PRESENT | _PAGE_ACCESSED;
	pte_t *ptep;

	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_RW | _PAGE_DIRTY;
	if (unlikely(address >= TASK_SIZE_MAX))
		return NULL;
	ptep = walk_table + pte_index(address);
	if (unlikely(!l4_walk_mm || l4_walk_mm != current->mm ||
		     walk_region != address >> PMD_SHIFT || (pte_val(*ptep) & bits) != bits ||
		     l4_is_device(*ptep))) {
		ptep = walk(address, right);
		if (unlikely(!ptep))
			return NULL;
	}
	return pfn_to_virt(pte_pfn(*ptep)) + offset_in_page(address);
}

static unsigned long part_of(unsigned long address, unsigned long n)
{
	return min(n, PAGE_SIZE - offset_in_page(address));
}

/* Small sizes are what get_user() and put_user() ask for. */
static __always_inline void copy_part(void *to, const void *from, unsigned long n)
{
	switch (n) {
	case 8:
		*(u64 *)to = *(const u64 *)from;
		break;
	case 4:
		*(u32 *)to = *(const u32 *)from;
		break;
	default:
		memcpy(to, from, n);
	}
}

/* These three return what could not be copied. */
unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long n)
{
	unsigned long address = (unsigned long)from, part;
	const void *byte;

	for (; n; n -= part, to += part, address += part) {
		byte = user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			break;
		part = part_of(address, n);
		copy_part(to, byte, part);
	}
	return n;
}
EXPORT_SYMBOL(raw_copy_from_user);

unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long n)
{
	unsigned long address = (unsigned long)to, part;
	void *byte;

	for (; n; n -= part, from += part, address += part) {
		byte = user_byte(address, KEEL_FPAGE_WRITE);
		if (!byte)
			break;
		part = part_of(address, n);
		copy_part(byte, from, part);
	}
	return n;
}
EXPORT_SYMBOL(raw_copy_to_user);

unsigned long __clear_user(void __user *to, unsigned long n)
{
	unsigned long address = (unsigned long)to, part;
	void *byte;

	for (; n; n -= part, address += part) {
		byte = user_byte(address, KEEL_FPAGE_WRITE);
		if (!byte)
			break;
		part = part_of(address, n);
		memset(byte, 0, part);
	}
	return n;
}
EXPORT_SYMBOL(__clear_user);

/* The length without the zero byte, count if there is none within it. */
long strncpy_from_user(char *to, const char __user *from, long count)
{
	unsigned long address = (unsigned long)from, part;
	long done = 0;
	const char *byte, *end;

	while (done < count) {
		byte = user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return -EFAULT;
		part = part_of(address, count - done);
		end = memchr(byte, 0, part);
		if (end)
			part = end - byte + 1;
		memcpy(to + done, byte, part);
		if (end)
			return done + part - 1;
		done += part;
		address += part;
	}
	return done;
}
EXPORT_SYMBOL(strncpy_from_user);

/* The length with the zero byte, 0 for a fault, more than count if there is none. */
long strnlen_user(const char __user *from, long count)
{
	unsigned long address = (unsigned long)from, part;
	long done = 0;
	const char *byte, *end;

	while (done < count) {
		byte = user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return 0;
		part = part_of(address, count - done);
		end = memchr(byte, 0, part);
		if (end)
			return done + (end - byte) + 1;
		done += part;
		address += part;
	}
	return count + 1;
}
EXPORT_SYMBOL(strnlen_user);

/* The word of a futex; the caller disabled page faults and resolves them itself. */
static u32 *futex_word(u32 __user *uaddr)
{
	if (!access_ok(uaddr, sizeof(*uaddr)))
		return NULL;
	return user_byte((unsigned long)uaddr, KEEL_FPAGE_WRITE);
}

/* No user thread runs meanwhile and interrupts leave user memory alone. */
int arch_futex_atomic_op_inuser(int op, u32 oparg, int *oval, u32 __user *uaddr)
{
	u32 *word = futex_word(uaddr);
	u32 old;

	if (!word)
		return -EFAULT;
	old = *word;
	switch (op) {
	case FUTEX_OP_SET:
		*word = oparg;
		break;
	case FUTEX_OP_ADD:
		*word = old + oparg;
		break;
	case FUTEX_OP_OR:
		*word = old | oparg;
		break;
	case FUTEX_OP_ANDN:
		*word = old & ~oparg;
		break;
	case FUTEX_OP_XOR:
		*word = old ^ oparg;
		break;
	default:
		return -ENOSYS;
	}
	*oval = old;
	return 0;
}

int futex_atomic_cmpxchg_inatomic(u32 *uval, u32 __user *uaddr, u32 oldval, u32 newval)
{
	u32 *word = futex_word(uaddr);

	if (!word)
		return -EFAULT;
	*uval = *word;
	if (*uval == oldval)
		*word = newval;
	return 0;
}

/* A copy between kernel addresses of which one may be bad. */
bool l4_copy_kernel_nofault(void *to, const void *from, unsigned int size)
{
	unsigned long count = size;

	asm goto("1:	rep movsb\n"
			  _ASM_EXTABLE(1b, %l[fault])
			  : : "D" (to), "S" (from), "c" (count) : "memory" : fault);
	return true;
fault:
	return false;
}
EXPORT_SYMBOL(l4_copy_kernel_nofault);
