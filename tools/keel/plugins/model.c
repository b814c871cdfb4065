// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "model.h"

enum { PAGE_SHIFT = 12 };

/*
 * Whether an entry of the set is this one; it is afterwards, and the set's least recently used is
 * gone.
 */
static bool touch(struct store *store, uint64_t set, uint64_t page, uint64_t frame, bool insert)
{
	struct entry *entries = store->entries + set % store->sets * store->ways;
	const struct entry new = { page, frame };
	uint64_t way = 0;

	while (way < store->ways && (entries[way].page != page || entries[way].frame != frame))
		way++;
	if (way == store->ways) {
		if (!insert)
			return false;
		way--;
		memmove(entries + 1, entries, way * sizeof(*entries));
		entries[0] = new;
		return false;
	}
	if (way > 0) {
		memmove(entries + 1, entries, way * sizeof(*entries));
		entries[0] = new;
	}
	return true;
}

/* No page and no line has this number. */
static const struct entry nothing = { UINT64_MAX, UINT64_MAX };

static void drop(struct store *store)
{
	for (uint64_t at = 0; at < store->sets * store->ways; at++)
		store->entries[at] = nothing;
}

/* At a change of address space; what is global stays. */
static void leave_space(const struct machine *machine, struct store *store)
{
	for (uint64_t at = 0; at < store->sets * store->ways; at++)
		if (!machine->costs.kernel_pages_stay ||
		    !is_kernels(store->entries[at].page << PAGE_SHIFT, machine->costs.shared_half))
			store->entries[at] = nothing;
}

/*
 * An entry is known by the page and by the frame that it leads to: two spaces that have different
 * frames at one address have different entries, as with tags. A space's number would not be seen
 * from outside.
 */
static uint64_t translation(struct machine *machine, int variant, int kind, uint64_t page, uint64_t frame)
{
	const bool is_code = kind == CODE_PAGES;
	struct store *store = is_code ? &machine->pages[variant].code : &machine->pages[variant].data;
	struct store *second = &machine->pages[variant].second;

	if (touch(store, page, page, frame, true))
		return 0;
	if (second->ways && touch(second, page, page, frame, true))
		return machine->costs.page_from_second;
	machine->misses[variant][kind]++;
	return is_code ? machine->costs.code_page_walk : machine->costs.data_page_walk;
}

/* What a line of the second cache takes that a first one asks for. */
static uint64_t from_second(struct machine *machine, uint64_t cost, uint64_t line)
{
	return cost + (touch(&machine->second_cache, line, line, 0, true) ? 0 : machine->costs.from_memory);
}

static void add(struct time *time, uint64_t cost)
{
	for (int variant = 0; variant < VARIANTS; variant++)
		time->of[variant] += cost;
}

static void fetch_line(struct machine *machine, uint64_t line, struct time *time)
{
	bool hit[VARIANTS], all_hit = true;
	uint64_t cost;

	for (int variant = 0; variant < VARIANTS; variant++) {
		hit[variant] = touch(&machine->pages[variant].code_cache, line, line, 0, true);
		all_hit &= hit[variant];
	}
	if (all_hit)
		return;
	cost = from_second(machine, machine->costs.code_from_second, line);
	for (int variant = 0; variant < VARIANTS; variant++)
		time->of[variant] += hit[variant] ? 0 : cost;
}

void model_fetch(struct machine *machine, uint64_t address, uint64_t physical, uint64_t bytes, struct time *time)
{
	const uint64_t page = address >> PAGE_SHIFT, frame = physical >> PAGE_SHIFT;
	const uint64_t last = (physical + bytes - 1) / machine->costs.line;

	for (int variant = 0; variant < VARIANTS; variant++)
		time->of[variant] += translation(machine, variant, CODE_PAGES, page, frame);
	for (uint64_t line = physical / machine->costs.line; line <= last; line++)
		fetch_line(machine, line, time);
}

void model_access(struct machine *machine, uint64_t address, uint64_t physical, bool store, struct time *time)
{
	const uint64_t page = address >> PAGE_SHIFT, frame = physical >> PAGE_SHIFT;
	const uint64_t line = physical / machine->costs.line;

	for (int variant = 0; variant < VARIANTS; variant++)
		time->of[variant] += translation(machine, variant, DATA_PAGES, page, frame);
	if (!touch(&machine->data_cache, line, line, 0, !store || machine->costs.store_allocates))
		add(time, from_second(machine, machine->costs.data_from_second, line));
}

void model_execute(const struct machine *machine, uint64_t instructions, struct time *time)
{
	add(time, instructions * machine->costs.instruction);
}

static void change_space(struct machine *machine, struct time *time)
{
	time->of[UNTAGGED] += machine->costs.space_change;
	time->of[TAGGED] += machine->costs.space_change_tagged;
	leave_space(machine, &machine->pages[UNTAGGED].code);
	leave_space(machine, &machine->pages[UNTAGGED].data);
	if (machine->costs.second_pages)
		leave_space(machine, &machine->pages[UNTAGGED].second);
	if (machine->costs.space_change_drops_code)
		drop(&machine->pages[UNTAGGED].code_cache);
}

void model_change(struct machine *machine, enum change change, struct time *time)
{
	const uint64_t costs[] = {
		[NO_CHANGE] = 0,
		[SYSCALL] = machine->costs.syscall,
		[SYSRET] = machine->costs.sysret,
		[EXCEPTION] = machine->costs.exception,
		[INTERRUPT] = machine->costs.interrupt,
		[IRET] = machine->costs.iret,
		[SEGMENT_LOAD] = machine->costs.segment_load,
		[PAGE_INVALIDATION] = machine->costs.page_invalidation,
	};

	if (change == SPACE_CHANGE)
		change_space(machine, time);
	else
		add(time, costs[change]);
}

uint64_t model_misses(const struct machine *machine, int variant, int kind)
{
	return machine->misses[variant][kind];
}

void model_forget_misses(struct machine *machine)
{
	memset(machine->misses, 0, sizeof(machine->misses));
}

bool model_set(struct machine *machine, const char *name, uint64_t value)
{
#define PARAMETER(field) { #field, offsetof(struct parameters, field) }
	static const struct {
		const char *name;
		size_t offset;
	} known[] = {
		PARAMETER(instruction), PARAMETER(line), PARAMETER(code_cache), PARAMETER(code_cache_ways),
		PARAMETER(data_cache), PARAMETER(data_cache_ways), PARAMETER(second_cache), PARAMETER(second_cache_ways),
		PARAMETER(store_allocates), PARAMETER(code_from_second), PARAMETER(data_from_second),
		PARAMETER(from_memory), PARAMETER(code_pages), PARAMETER(code_pages_ways), PARAMETER(data_pages),
		PARAMETER(data_pages_ways), PARAMETER(second_pages), PARAMETER(second_pages_ways),
		PARAMETER(page_from_second), PARAMETER(code_page_walk), PARAMETER(data_page_walk),
		PARAMETER(kernel_pages_stay), PARAMETER(shared_half), PARAMETER(syscall), PARAMETER(sysret),
		PARAMETER(exception), PARAMETER(interrupt), PARAMETER(iret), PARAMETER(segment_load),
		PARAMETER(space_change), PARAMETER(space_change_tagged), PARAMETER(space_change_drops_code),
		PARAMETER(page_invalidation),
	};
#undef PARAMETER

	for (size_t at = 0; at < sizeof(known) / sizeof(known[0]); at++)
		if (!strcmp(known[at].name, name)) {
			memcpy((char *)&machine->costs + known[at].offset, &value, sizeof(value));
			return true;
		}
	return false;
}

static bool make(struct store *store, uint64_t entries, uint64_t ways)
{
	if (!ways || !entries || entries % ways)
		return false;
	store->sets = entries / ways;
	store->ways = ways;
	store->entries = malloc(entries * sizeof(*store->entries));
	if (!store->entries)
		return false;
	drop(store);
	return true;
}

bool model_start(struct machine *machine)
{
	const struct parameters *costs = &machine->costs;
	bool made = costs->line && make(&machine->data_cache, costs->data_cache / costs->line, costs->data_cache_ways) &&
		    make(&machine->second_cache, costs->second_cache / costs->line, costs->second_cache_ways);

	for (int variant = 0; made && variant < VARIANTS; variant++)
		made = make(&machine->pages[variant].code_cache, costs->code_cache / costs->line,
			    costs->code_cache_ways) &&
		       make(&machine->pages[variant].code, costs->code_pages, costs->code_pages_ways) &&
		       make(&machine->pages[variant].data, costs->data_pages, costs->data_pages_ways) &&
		       (!costs->second_pages ||
			make(&machine->pages[variant].second, costs->second_pages, costs->second_pages_ways));
	return made;
}
