// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to user memory by a walk of the logical page tables: the page is reached
 * in the direct map, because each mm is an L4 task of its own and the server has no
 * mapping of user memory. Where the tables do not allow the access Linux's fault
 * handling runs, unless page faults are disabled. From the walk to the end of the
 * copy within the page l4_lockless_walk is set: whoever takes the page away waits for that
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
#include <asm/walk.h>
#include <asm/word-at-a-time.h>

/*
 * The fault that the access would have caused; false where it is an error. As on x86 the kernel
 * may read what a program may, pages that are only to be written or executed too; therefore not
 * fixup_user_fault(), which wants VM_READ.
 */
static bool l4_fault_in(unsigned long address, unsigned long right)
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

DEFINE_PER_CPU(struct l4_soft_tlb_entry, l4_soft_tlb[L4_SOFT_TLB_ENTRIES]);

/* An interrupt that comes meanwhile finds nothing. */
static void l4_soft_tlb_fill(pte_t *ptep, unsigned long address, unsigned long generation)
{
	struct l4_soft_tlb_entry *line = l4_soft_tlb_entry(address >> PMD_SHIFT, generation);

	WRITE_ONCE(line->generation, 0);
	barrier();
	line->table = ptep - pte_index(address);
	line->region = address >> PMD_SHIFT;
	barrier();
	WRITE_ONCE(line->generation, generation);
}

/*
 * The entry of a user's address after a whole walk, as l4_find_pte(). The table of one that has
 * a small page is remembered, but not by interrupts.
 */
pte_t *l4_walk(unsigned long address)
{
	unsigned long generation = READ_ONCE(current->mm->context.generation);
	pte_t *ptep = l4_find_pte(current->mm, address);

	if (ptep && (pte_val(READ_ONCE(*ptep)) & (_PAGE_TABLE | _PAGE_PSE)) == _PAGE_PRESENT &&
	    in_task())
		l4_soft_tlb_fill(ptep, address, generation);
	return ptep;
}

/* The entry of an address after a whole walk and, if need be, a fault; zero: EFAULT. */
static noinline pte_t l4_find_user(unsigned long address, unsigned long right)
{
	pte_t *ptep, pte;

	if (!current->mm || address >= TASK_SIZE_MAX)
		return __pte(0);
	for (;;) {
		ptep = l4_walk(address);
		pte = ptep ? l4_pte_use(ptep, right) : __pte(0);
		if (!pte_none(pte))
			break;
		l4_walk_end();
		if (!l4_fault_in(address, right)) {
			l4_walk_begin();
			return pte;
		}
		l4_walk_begin();
	}
	if (l4_is_device(pte))
		return __pte(0);
	if (l4_pte_pages(pte) > 1)	/* as the small page's entry would be */
		return pfn_pte(pte_pfn(pte) + pte_index(address), PAGE_SHARED);
	return pte;
}

/*
 * Whether an entry allows an access and has noted one before. Of special pages only that of zeros
 * counts.
 */
static __always_inline bool l4_pte_allows(pte_t pte, unsigned long right)
{
	unsigned long bits = _PAGE_PRESENT | _PAGE_ACCESSED;

	if (right & KEEL_FPAGE_WRITE)
		bits |= _PAGE_RW | _PAGE_DIRTY;
	if (unlikely((pte_val(pte) & bits) != bits))
		return false;
	return likely(!(pte_val(pte) & (_PAGE_SPECIAL | _PAGE_PCD))) || is_zero_pfn(pte_pfn(pte));
}

/*
 * The entry of an address, if its table is remembered. None that allows anything is that of an
 * address beyond a program's.
 */
static __always_inline pte_t *l4_soft_tlb_user_pte(unsigned long address)
{
	const struct mm_struct *mm = current->mm;

	return likely(mm) ? l4_soft_tlb_pte(mm, address) : NULL;
}

static __always_inline void *l4_pte_byte(pte_t pte, unsigned long address)
{
	return __va(pte_val(pte) & PTE_PFN_MASK) + offset_in_page(address);
}

/*
 * Where the byte at a user address lies, with the access noted; NULL: EFAULT. Else
 * l4_walk_end() is due behind the access.
 */
static __always_inline void *l4_user_byte(unsigned long address, unsigned long right)
{
	pte_t *ptep, pte = __pte(0);

	l4_walk_begin();
	ptep = l4_soft_tlb_user_pte(address);
	if (likely(ptep))
		pte = READ_ONCE(*ptep);
	if (unlikely(!l4_pte_allows(pte, right))) {
		pte = l4_find_user(address, right);
		if (pte_none(pte)) {
			l4_walk_end();
			return NULL;
		}
	}
	return l4_pte_byte(pte, address);
}

static unsigned long l4_part_of(unsigned long address, unsigned long n)
{
	return min(n, PAGE_SIZE - offset_in_page(address));
}

/* To the user, or from it, as the right says; within a page. */
static __always_inline void l4_copy_bytes(void *user, void *kernel, unsigned long n,
					  unsigned long right)
{
	void *to = right & KEEL_FPAGE_WRITE ? user : kernel;
	const void *from = right & KEEL_FPAGE_WRITE ? kernel : user;
	unsigned long words = n / sizeof(long);

	n %= sizeof(long);
	asm volatile("rep movsq" : "+D" (to), "+S" (from), "+c" (words) : : "memory");
	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (n) : : "memory");
}

/* Small sizes are what get_user() and put_user() ask for. */
static __always_inline void l4_copy_part(void *user, void *kernel, unsigned long n,
					 unsigned long right)
{
	void *to = right & KEEL_FPAGE_WRITE ? user : kernel;
	const void *from = right & KEEL_FPAGE_WRITE ? kernel : user;

	switch (n) {
	case 8:
		*(u64 *)to = *(const u64 *)from;
		break;
	case 4:
		*(u32 *)to = *(const u32 *)from;
		break;
	default:
		l4_copy_bytes(user, kernel, n, right);
	}
}

/* Page by page. Like those that follow it returns what could not be copied. */
static noinline unsigned long l4_copy_parts(unsigned long address, void *kernel, unsigned long n,
					    unsigned long right)
{
	unsigned long part;
	void *byte;

	for (; n; n -= part, kernel += part, address += part) {
		byte = right & KEEL_FPAGE_WRITE ? l4_user_byte(address, KEEL_FPAGE_WRITE) :
						  l4_user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			break;
		part = l4_part_of(address, n);
		l4_copy_part(byte, kernel, part, right);
		l4_walk_end();
	}
	return n;
}

/*
 * No more than PAGE_SIZE, of one page or two, by one walk: false where that needs more than what is
 * remembered.
 */
static __always_inline bool l4_copy_cached(unsigned long address, void *kernel, unsigned long n,
					   unsigned long right)
{
	unsigned long first = PAGE_SIZE - offset_in_page(address);
	pte_t *ptep = l4_soft_tlb_user_pte(address), pte, next;

	if (unlikely(!ptep))
		return false;
	pte = READ_ONCE(*ptep);
	if (unlikely(!l4_pte_allows(pte, right)))
		return false;
	if (likely(n <= first)) {
		l4_copy_part(l4_pte_byte(pte, address), kernel, n, right);
		return true;
	}
	if (unlikely(pte_index(address) == PTRS_PER_PTE - 1))
		return false;
	next = READ_ONCE(ptep[1]);
	if (unlikely(!l4_pte_allows(next, right)))
		return false;
	l4_copy_bytes(l4_pte_byte(pte, address), kernel, first, right);
	l4_copy_bytes(l4_pte_byte(next, 0), kernel + first, n - first, right);
	return true;
}

static __always_inline unsigned long l4_copy_user(unsigned long address, void *kernel, unsigned long n,
						  unsigned long right)
{
	unsigned long part;
	bool done;

	for (;;) {
		part = min(n, PAGE_SIZE);
		l4_walk_begin();
		done = l4_copy_cached(address, kernel, part, right);
		l4_walk_end();
		if (unlikely(!done))
			return l4_copy_parts(address, kernel, n, right);
		n -= part;
		if (likely(!n))
			return 0;
		kernel += part;
		address += part;
	}
}

unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long n)
{
	return l4_copy_user((unsigned long)from, to, n, KEEL_FPAGE_READ);
}
EXPORT_SYMBOL(raw_copy_from_user);

unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long n)
{
	return l4_copy_user((unsigned long)to, (void *)from, n, KEEL_FPAGE_WRITE);
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
	if (l4_part_of(address, n) < n)
		return raw_copy_to_user(to, from, n);
	byte = l4_user_byte(address, KEEL_FPAGE_WRITE);
	if (!byte)
		return n;
	l4_copy_part(byte, (void *)from, n, KEEL_FPAGE_WRITE);
	this_cpu_write(l4_window.memory, byte - offset_in_page(address));
	this_cpu_write(l4_window.page, address & PAGE_MASK);
	return 0;
}
EXPORT_SYMBOL(l4_window_move);

void *l4_user_place(const void __user *address, unsigned long n, unsigned long right)
{
	if (n > PAGE_SIZE - offset_in_page(address))
		return NULL;
	return l4_user_byte((unsigned long)address, right);
}

unsigned long __clear_user(void __user *to, unsigned long n)
{
	unsigned long address = (unsigned long)to, part;
	void *byte;

	for (; n; n -= part, address += part) {
		byte = l4_user_byte(address, KEEL_FPAGE_WRITE);
		if (!byte)
			break;
		part = l4_part_of(address, n);
		memset(byte, 0, part);
		l4_walk_end();
	}
	return n;
}
EXPORT_SYMBOL(__clear_user);

/*
 * The length of a string before its zero byte, n if it has none. It is copied, with that, if it is to
 * go anywhere, and the copy is looked at: a thread on another processor may change the string.
 */
static __always_inline unsigned long l4_string_part(char *to, const char *from, unsigned long n)
{
	const struct word_at_a_time constants = WORD_AT_A_TIME_CONSTANTS;
	unsigned long length = 0, word, zeros;
	char byte;

	for (; n - length >= sizeof(word); length += sizeof(word)) {
		word = READ_ONCE(*(const unsigned long *)(from + length));
		if (to)
			*(unsigned long *)(to + length) = word;
		if (has_zero(word, &zeros, &constants)) {
			zeros = create_zero_mask(prep_zero_mask(word, zeros, &constants));
			return length + find_zero(zeros);
		}
	}
	for (; length < n; length++) {
		byte = READ_ONCE(from[length]);
		if (to)
			to[length] = byte;
		if (!byte)
			break;
	}
	return length;
}

/* The length without the zero byte, count if there is none within it. */
long strncpy_from_user(char *to, const char __user *from, long count)
{
	unsigned long address = (unsigned long)from, part, length;
	const char *byte;
	long done = 0;

	while (done < count) {
		byte = l4_user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return -EFAULT;
		part = l4_part_of(address, count - done);
		length = l4_string_part(to + done, byte, part);
		l4_walk_end();
		done += length;
		if (length < part)
			break;
		address += part;
	}
	return done;
}
EXPORT_SYMBOL(strncpy_from_user);

/* The length with the zero byte, 0 for a fault, more than count if there is none. */
long strnlen_user(const char __user *from, long count)
{
	unsigned long address = (unsigned long)from, part, length;
	const char *byte;
	long done = 0;

	while (done < count) {
		byte = l4_user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return 0;
		part = l4_part_of(address, count - done);
		length = l4_string_part(NULL, byte, part);
		l4_walk_end();
		done += length;
		if (length < part)
			return done + 1;
		address += part;
	}
	return count + 1;
}
EXPORT_SYMBOL(strnlen_user);

/* The word of a futex, as l4_user_byte(); the caller disabled page faults and resolves them itself. */
static u32 *l4_futex_word(u32 __user *uaddr)
{
	if (!access_ok(uaddr, sizeof(*uaddr)))
		return NULL;
	return l4_user_byte((unsigned long)uaddr, KEEL_FPAGE_WRITE);
}

static u32 l4_futex_result(int op, u32 old, u32 oparg)
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
	word = l4_futex_word(uaddr);
	if (!word)
		return -EFAULT;
	old = READ_ONCE(*word);
	while (!try_cmpxchg(word, &old, l4_futex_result(op, old, oparg)))
		;
	l4_walk_end();
	*oval = old;
	return 0;
}

int futex_atomic_cmpxchg_inatomic(u32 *uval, u32 __user *uaddr, u32 oldval, u32 newval)
{
	u32 *word = l4_futex_word(uaddr);

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
