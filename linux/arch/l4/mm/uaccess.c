// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to user memory by a walk of the logical page tables: the page is reached
 * in the direct map, because each mm is an L4 task of its own and the server has no
 * mapping of user memory. Where the tables do not allow the access Linux's fault
 * handling runs, unless page faults are disabled. From the walk to the end of the
 * copy within the page l4_walking is set: whoever takes the page away waits for that
 * (mm/tlb.c). In between there is no sleep, no fault and no flush.
 */
#include <linux/export.h>
#include <linux/futex.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/futex.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

/*
 * The fault that the access would have caused; false where it is an error. As on x86 the kernel
 * may read what a program may, pages that are only to be written or executed too; therefore not
 * fixup_user_fault(), which wants VM_READ.
 */
static bool fault_in(unsigned long address, unsigned long right)
{
	unsigned int flags = FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	if (faulthandler_disabled())
		return false;
	if (right & KEEL_FPAGE_WRITE)
		flags |= FAULT_FLAG_WRITE;
retry:
	vma = lock_mm_and_find_vma(mm, address, NULL);
	if (!vma)
		return false;
	if (l4_vma_forbids(vma, right)) {
		mmap_read_unlock(mm);
		return false;
	}
	fault = handle_mm_fault(vma, address, flags, NULL);
	if (fault & VM_FAULT_COMPLETED)
		return true;
	if (fault & VM_FAULT_RETRY) {
		if (fatal_signal_pending(current))
			return false;
		flags |= FAULT_FLAG_TRIED;
		goto retry;
	}
	mmap_read_unlock(mm);
	return !(fault & VM_FAULT_ERROR);
}

/*
 * The leaf tables of the processor's last accesses, for a few programs that take turns:
 * their accesses come in crowds. Entries are always read anew. One is void once the
 * mm's tables have another number. Interrupts leave them alone.
 */
#define LAST_WALKS 8
struct last_walk {
	pte_t *table;
	unsigned long region;
	unsigned long tables;
};
static DEFINE_PER_CPU(struct last_walk, last_walks[LAST_WALKS]);

static __always_inline struct last_walk *last_walk(unsigned long tables)
{
	return this_cpu_ptr(&last_walks[tables % LAST_WALKS]);
}

/* An interrupt that comes meanwhile finds nothing. */
static void remember(pte_t *ptep, unsigned long address, unsigned long tables)
{
	struct last_walk *last = last_walk(tables);

	WRITE_ONCE(last->tables, 0);
	barrier();
	last->table = ptep - pte_index(address);
	last->region = address >> PMD_SHIFT;
	barrier();
	WRITE_ONCE(last->tables, tables);
}

/* The entry of an address after a whole walk and, if need be, a fault; zero: EFAULT. */
static noinline pte_t walk(unsigned long address, unsigned long right)
{
	unsigned long tables;
	pte_t *ptep, pte;

	if (!current->mm)
		return __pte(0);
	for (;;) {
		tables = READ_ONCE(current->mm->context.tables);
		ptep = l4_find_pte(current->mm, address);
		pte = ptep ? l4_pte_use(ptep, right) : __pte(0);
		if (!pte_none(pte))
			break;
		l4_walk_end();
		if (!fault_in(address, right)) {
			l4_walk_begin();
			return pte;
		}
		l4_walk_begin();
	}
	if (l4_is_device(pte))
		return __pte(0);
	if (l4_pte_pages(pte) > 1)	/* as the small page's entry would be */
		return pfn_pte(pte_pfn(pte) + pte_index(address), PAGE_SHARED);
	if (in_task())
		remember(ptep, address, tables);
	return pte;
}

/*
 * Where the byte at a user address lies, with the access noted; NULL: EFAULT. Else
 * l4_walk_end() is due behind the access.
 */
static __always_inline void *user_byte(unsigned long address, unsigned long right)
{
	unsigned long bits = _PAGE_PRESENT | _PAGE_ACCESSED, tables;
	const struct last_walk *last;
	pte_t pte = __pte(0);

	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_RW | _PAGE_DIRTY;
	if (unlikely(address >= TASK_SIZE_MAX))
		return NULL;
	l4_walk_begin();
	if (likely(current->mm)) {
		tables = READ_ONCE(current->mm->context.tables);
		last = last_walk(tables);
		if (likely(last->region == address >> PMD_SHIFT && last->tables == tables))
			pte = READ_ONCE(last->table[pte_index(address)]);
	}
	if (unlikely((pte_val(pte) & bits) != bits || l4_is_device(pte))) {
		pte = walk(address, right);
		if (pte_none(pte)) {
			l4_walk_end();
			return NULL;
		}
	}
	return pfn_to_virt(pte_pfn(pte)) + offset_in_page(address);
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
		l4_walk_end();
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
		l4_walk_end();
	}
	return n;
}
EXPORT_SYMBOL(raw_copy_to_user);

DEFINE_PER_CPU(struct l4_window, l4_window) = { .page = L4_NO_WINDOW };
EXPORT_PER_CPU_SYMBOL(l4_window);

void l4_window_end(void)
{
	this_cpu_write(l4_window.page, L4_NO_WINDOW);
	l4_walk_end();
}
EXPORT_SYMBOL(l4_window_end);

/* As raw_copy_to_user(), for a word in another page than the window's: it moves there. */
unsigned long l4_window_move(void __user *to, const void *from, unsigned long n)
{
	unsigned long address = (unsigned long)to;
	void *byte;

	l4_window_close();
	if (part_of(address, n) < n)
		return raw_copy_to_user(to, from, n);
	byte = user_byte(address, KEEL_FPAGE_WRITE);
	if (!byte)
		return n;
	copy_part(byte, from, n);
	this_cpu_write(l4_window.memory, byte - offset_in_page(address));
	this_cpu_write(l4_window.page, address & PAGE_MASK);
	return 0;
}
EXPORT_SYMBOL(l4_window_move);

void *l4_user_place(const void __user *address, unsigned long n, unsigned long right)
{
	if (n > PAGE_SIZE - offset_in_page(address))
		return NULL;
	return user_byte((unsigned long)address, right);
}

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
		l4_walk_end();
	}
	return n;
}
EXPORT_SYMBOL(__clear_user);

/*
 * The length without the zero byte, count if there is none within it. A thread on
 * another processor may change the string: what was copied is looked at.
 */
long strncpy_from_user(char *to, const char __user *from, long count)
{
	unsigned long address = (unsigned long)from, part;
	const char *byte, *end;
	long done = 0;

	while (done < count) {
		byte = user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return -EFAULT;
		part = part_of(address, count - done);
		end = memchr(byte, 0, part);
		if (end)
			part = end - byte + 1;
		memcpy(to + done, byte, part);
		l4_walk_end();
		end = memchr(to + done, 0, part);
		if (end)
			return end - to;
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
		l4_walk_end();
		if (end)
			return done + (end - byte) + 1;
		done += part;
		address += part;
	}
	return count + 1;
}
EXPORT_SYMBOL(strnlen_user);

/* The word of a futex, as user_byte(); the caller disabled page faults and resolves them itself. */
static u32 *futex_word(u32 __user *uaddr)
{
	if (!access_ok(uaddr, sizeof(*uaddr)))
		return NULL;
	return user_byte((unsigned long)uaddr, KEEL_FPAGE_WRITE);
}

static u32 futex_result(int op, u32 old, u32 oparg)
{
	switch (op) {
	case FUTEX_OP_SET:
		return oparg;
	case FUTEX_OP_ADD:
		return old + oparg;
	case FUTEX_OP_OR:
		return old | oparg;
	case FUTEX_OP_ANDN:
		return old & ~oparg;
	default:
		return old ^ oparg;
	}
}

int arch_futex_atomic_op_inuser(int op, u32 oparg, int *oval, u32 __user *uaddr)
{
	u32 *word, old;

	if (op < FUTEX_OP_SET || op > FUTEX_OP_XOR)
		return -ENOSYS;
	word = futex_word(uaddr);
	if (!word)
		return -EFAULT;
	old = READ_ONCE(*word);
	while (!try_cmpxchg(word, &old, futex_result(op, old, oparg)))
		;
	l4_walk_end();
	*oval = old;
	return 0;
}

int futex_atomic_cmpxchg_inatomic(u32 *uval, u32 __user *uaddr, u32 oldval, u32 newval)
{
	u32 *word = futex_word(uaddr);

	if (!word)
		return -EFAULT;
	*uval = cmpxchg(word, oldval, newval);
	l4_walk_end();
	return 0;
}

/* A copy between kernel addresses of which one may be bad. */
bool l4_copy_kernel_nofault(void *to, const void *from, unsigned int size)
{
	unsigned long left = size;

	/* The instruction changes all three; a bad address ends it with bytes left. */
	asm volatile("1:	rep movsb\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "+D" (to), "+S" (from), "+c" (left) : : "memory");
	return !left;
}
EXPORT_SYMBOL(l4_copy_kernel_nofault);
