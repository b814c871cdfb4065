// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to user memory by a software walk of the guest page tables of current->mm. Hardware never
 * uses these tables: each mm is an L4 task of its own, and the server's space has no user mappings.
 * The page is reached in the direct map. That cannot fault, so there is no exception fixup, and
 * nothing of the user's is mapped that STAC and CLAC would guard. If the entry does not allow the
 * access, Linux's fault handling runs and the walk is repeated, unless page faults are disabled:
 * then the access fails. From the load of the entry to the end of the copy within the page a
 * lockless walk section (l4_walk_begin(), asm/tlbflush.h) is open: whoever takes away the page or a
 * table waits for its end (mm/tlb.c), so the section has no sleep, no fault and no flush. The
 * functions may be called in process context, and with page faults disabled also in atomic and
 * interrupt context.
 *
 * The memory of a program in the server (kernel/inside.c) is in the server's space. It is copied
 * directly as far as it is mapped there, and by the walk from the first fault on. The page of the
 * fault is mapped when the program goes on, so that the next copy does not fault.
 */
#include <linux/export.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>
#include <asm/walk.h>
#include <asm/word-at-a-time.h>

/* The software TLB. */
DEFINE_PER_CPU(struct l4_soft_tlb_entry, l4_soft_tlb[L4_SOFT_TLB_ENTRIES]);

/*
 * Fills a line of the software TLB (asm/walk.h): each processor caches leaf tables. A line
 * is valid while its generation is the mm's, which changes when tables are freed. The line is empty
 * while it changes, so that an access in an interrupt never sees half of it; the barriers keep the
 * compiler from reordering the stores. The generation was read before the walk: if a table was
 * freed in between, the line is void already.
 */
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
 * Returns the entry of a user address after a full walk, like l4_find_pte(). The caller is in a
 * walk section. The table is cached if the entry maps a small page, but only in task context: an
 * interrupt must not change a line that the interrupted code is filling or reading.
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

/*
 * The slow path: returns the entry of an address after a full walk and as many faults as it takes,
 * with the accessed bit, and for writing the dirty bit, set as hardware would do. Zero means
 * -EFAULT. The caller is in a walk section, which is left for each fault and open on return.
 */
static noinline pte_t l4_find_user(unsigned long address, unsigned long right)
{
	pte_t *ptep, pte;

	/* Kernel threads have no user memory. */
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
	if (l4_is_device(pte))	/* the direct map has no device memory */
		return __pte(0);
	if (l4_pte_pages(pte) > 1)	/* of 2 MB: make the entry that the small page would have */
		return pfn_pte(pte_pfn(pte) + pte_index(address), PAGE_SHARED);
	return pte;
}

/*
 * Returns true if an entry allows an access and its accessed bit, and for writing its dirty bit, is
 * set already: then nothing has to be stored. Otherwise l4_find_user() sets them. Special and
 * uncached entries are refused here, because they may be of devices: l4_find_user() tells, and
 * accesses those that are memory. The zero page is known to be memory.
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
 * Returns the entry of an address if the software TLB has its table, else NULL. The address is not
 * compared with TASK_SIZE_MAX: only tables of user addresses are cached, and in those no entry from
 * TASK_SIZE_MAX on allows an access.
 */
static __always_inline pte_t *l4_soft_tlb_user_pte(unsigned long address)
{
	const struct mm_struct *mm = current->mm;

	return likely(mm) ? l4_soft_tlb_pte(mm, address) : NULL;
}

/* The direct-map address of a byte in the page of an entry. */
static __always_inline void *l4_pte_byte(pte_t pte, unsigned long address)
{
	return __va(pte_val(pte) & PTE_PFN_MASK) + offset_in_page(address);
}

/*
 * Returns the direct-map address of the byte at a user address, up to the end of its page, with the
 * accessed and dirty bits set; NULL means -EFAULT. If it is not NULL, a walk section is open: the
 * caller ends it by l4_walk_end() after the access.
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

/* How many of n bytes are in the page of the address. */
static unsigned long l4_part_of(unsigned long address, unsigned long n)
{
	return min(n, PAGE_SIZE - offset_in_page(address));
}

/* Copies to user memory for KEEL_FPAGE_WRITE, else from it; within a page, in a walk section. */
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

/* Like l4_copy_bytes(). 8 and 4 bytes, which get_user() and put_user() ask for, are one access. */
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

/* The slow path of l4_copy_user(): page by page. Returns the bytes that could not be copied. */
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
 * The fast path: copies at most PAGE_SIZE bytes, of one page or two, in one walk section, which the
 * caller has opened. Returns false, and has copied nothing, if a table is not cached or an entry
 * does not allow the access.
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
	if (unlikely(pte_index(address) == PTRS_PER_PTE - 1))	/* next: another table */
		return false;
	next = READ_ONCE(ptep[1]);
	if (unlikely(!l4_pte_allows(next, right)))
		return false;
	l4_copy_bytes(l4_pte_byte(pte, address), kernel, first, right);
	l4_copy_bytes(l4_pte_byte(next, 0), kernel + first, n - first, right);
	return true;
}

/*
 * Copies n bytes, by page-sized parts, and returns the bytes that could not be copied. Each part
 * has a walk section of its own, so that other processors do not wait for the whole copy.
 */
static __always_inline unsigned long l4_copy_by_walk(unsigned long address, void *kernel,
						     unsigned long n, unsigned long right)
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

/*
 * The memory of the current thread is in this space, where it is mapped. Copies until a fault, and
 * returns the bytes that are left. What is mapped is young, and dirty if it can be written, so that
 * nothing has to be marked.
 */
static __always_inline unsigned long l4_copy_plain(unsigned long address, void *kernel,
						   unsigned long n, unsigned long right)
{
	void *to = right & KEEL_FPAGE_WRITE ? (void *)address : kernel;
	const void *from = right & KEEL_FPAGE_WRITE ? kernel : (void *)address;
	unsigned long words = n / sizeof(long), bytes = n % sizeof(long);

	asm volatile("1:	rep movsq\n"
		     "	movq %[bytes], %%rcx\n"
		     "2:	rep movsb\n"
		     "3:	movq %%rcx, %[bytes]\n"
		     "	xorl %%ecx, %%ecx\n"
		     "4:\n"
		     _ASM_EXTABLE(1b, 4b)
		     _ASM_EXTABLE(2b, 3b)
		     : "+D" (to), "+S" (from), "+c" (words), [bytes] "+r" (bytes) : : "memory");
	return words * sizeof(long) + bytes;
}

/*
 * Like l4_copy_by_walk(), where programs have been in the server (kernel/inside.c): directly, if
 * the current thread is. Not of 4 and 2 bytes, because those are one access.
 */
static noinline unsigned long l4_copy_inside(unsigned long address, void *kernel, unsigned long n,
					     unsigned long right)
{
	unsigned long left;

	if (!current->mm || !current->mm->context.inside || address >= TASK_SIZE_MAX - n ||
	    n == sizeof(u32) || n == sizeof(u16))
		return l4_copy_by_walk(address, kernel, n, right);
	left = l4_copy_plain(address, kernel, n, right);
	if (likely(!left))
		return 0;
	address += n - left;
	if (in_task()) {	/* the page is mapped before the thread goes on */
		current->thread.reclaimed = false;
		current->thread.fault_address = address;
		current->thread.fault_rights = right;
		current->thread.resume_action = L4_RESUME_MAPPINGS;
	}
	return l4_copy_by_walk(address, kernel + n - left, left, right);
}

unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long n)
{
	if (static_branch_unlikely(&l4_inside_used))
		return l4_copy_inside((unsigned long)from, to, n, KEEL_FPAGE_READ);
	return l4_copy_by_walk((unsigned long)from, to, n, KEEL_FPAGE_READ);
}
EXPORT_SYMBOL(raw_copy_from_user);

unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long n)
{
	if (static_branch_unlikely(&l4_inside_used))
		return l4_copy_inside((unsigned long)to, (void *)from, n, KEEL_FPAGE_WRITE);
	return l4_copy_by_walk((unsigned long)to, (void *)from, n, KEEL_FPAGE_WRITE);
}
EXPORT_SYMBOL(raw_copy_to_user);

/*
 * The window of a block of unsafe_put_user() (asm/uaccess.h): the page that was written last. Its
 * walk section stays open between the writes, so an unmap on another processor waits for the
 * block's end.
 */
DEFINE_PER_CPU(struct l4_window, l4_window) = { .page = L4_NO_WINDOW };
EXPORT_PER_CPU_SYMBOL(l4_window);

/* Closes the window, which is open, and its walk section. */
void l4_window_end(void)
{
	this_cpu_write(l4_window.page, L4_NO_WINDOW);
	l4_walk_end();
}
EXPORT_SYMBOL(l4_window_end);

/*
 * Like raw_copy_to_user(), for a word that is not in the window's page: the window moves there and
 * stays open, with its walk section, until l4_window_close(). A word that crosses a page is copied
 * without a window.
 */
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

/* Like l4_user_byte(), for n bytes, which must not cross a page (asm/uaccess.h). */
void *l4_user_place(const void __user *address, unsigned long n, unsigned long right)
{
	if (n > PAGE_SIZE - offset_in_page(address))
		return NULL;
	return l4_user_byte((unsigned long)address, right);
}

/* Writes zeros. Returns the bytes that could not be written. */
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
 * Returns the length of the string in n bytes, without its zero byte, or n if there is none. With
 * `copy` the string is copied with its zero byte. Each word is loaded once, copied and then
 * examined, because a thread on another processor may change the string meanwhile. The caller is in
 * a walk section.
 */
static __always_inline unsigned long l4_string_part(char *to, const char *from, unsigned long n,
						    bool copy)
{
	const struct word_at_a_time constants = WORD_AT_A_TIME_CONSTANTS;
	unsigned long length = 0, word, zeros;
	char byte;

	for (; n - length >= sizeof(word); length += sizeof(word)) {
		word = READ_ONCE(*(const unsigned long *)(from + length));
		if (copy)
			*(unsigned long *)(to + length) = word;
		if (has_zero(word, &zeros, &constants)) {
			zeros = create_zero_mask(prep_zero_mask(word, zeros, &constants));
			return length + find_zero(zeros);
		}
	}
	for (; length < n; length++) {
		byte = READ_ONCE(from[length]);
		if (copy)
			to[length] = byte;
		if (!byte)
			break;
	}
	return length;
}

/*
 * Returns the length of a user's string without its zero byte, count if there is none within it, or
 * `fault`. With `copy` the string is copied.
 */
static __always_inline long l4_user_string(char *to, const char __user *from, long count,
					   long fault, bool copy)
{
	unsigned long address = (unsigned long)from, part, length;
	const char *byte;
	long done = 0;

	while (done < count) {
		byte = l4_user_byte(address, KEEL_FPAGE_READ);
		if (!byte)
			return fault;
		part = l4_part_of(address, count - done);
		length = l4_string_part(to + done, byte, part, copy);
		l4_walk_end();
		done += length;
		if (length < part)
			break;
		address += part;
	}
	return done;
}

/* Returns the length without the zero byte, count if there is none within it, or -EFAULT. */
long strncpy_from_user(char *to, const char __user *from, long count)
{
	return l4_user_string(to, from, count, -EFAULT, true);
}
EXPORT_SYMBOL(strncpy_from_user);

/* Returns the length with the zero byte, 0 for a fault, or more than count if there is none. */
long strnlen_user(const char __user *from, long count)
{
	return l4_user_string(NULL, from, count, -1, false) + 1;
}
EXPORT_SYMBOL(strnlen_user);

/* A 32-bit program's memory is in the lower half of the space that is loaded (mm/small.c). */
bool copy_from_kernel_nofault_allowed(const void *from, size_t size)
{
	return (unsigned long)from >= TASK_SIZE_MAX;
}

/*
 * Copies between kernel addresses of which one may be unmapped. Returns false if it was: the trap
 * reflector then applies the fixup (kernel/traps.c).
 */
bool l4_copy_kernel_nofault(void *to, const void *from, unsigned int size)
{
	unsigned long left = size;

	if ((unsigned long)to < TASK_SIZE_MAX)
		return false;
	/* The instruction changes all three; a bad address ends it with bytes left. */
	asm volatile("1:	rep movsb\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "+D" (to), "+S" (from), "+c" (left) : : "memory");
	return !left;
}
EXPORT_SYMBOL(l4_copy_kernel_nofault);
