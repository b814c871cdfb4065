// SPDX-License-Identifier: GPL-2.0-only
/*
 * The processor's features, read by CPUID at boot: for Linux's feature tests, the auxiliary vector
 * and /proc/cpuinfo. All processors are alike, so one record serves for all.
 */
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/delay.h>
#include <asm/alternative.h>
#include <asm/archrandom.h>
#include <asm/cpu.h>
#include <asm/cpufeature.h>
#include <asm/fpu/types.h>
#include <asm/l4.h>
#include <asm/processor.h>
#include <uapi/asm/hwcap2.h>

#define CPUID_EXTENDED 0x80000000
#define CPUID_BRAND_FIRST 0x80000002
#define CPUID_BRAND_LAST 0x80000004
#define CPUID_ADDRESS_SIZES 0x80000008
/* What Linux assumes of a processor that does not report its address sizes. */
#define DEFAULT_PHYS_BITS 36
#define DEFAULT_VIRT_BITS 48
#define AMD_K8 0xf

struct cpuinfo_x86 boot_cpu_data;
EXPORT_SYMBOL(boot_cpu_data);
u32 elf_hwcap2 __read_mostly;
static unsigned int l4_virt_bits;

struct cpuid_words {
	u32 eax, ebx, ecx, edx;
};

static struct cpuid_words __init l4_cpuid(u32 leaf, u32 subleaf)
{
	struct cpuid_words w = { .eax = leaf, .ecx = subleaf };

	native_cpuid(&w.eax, &w.ebx, &w.ecx, &w.edx);
	return w;
}

static void __init l4_read_names(struct cpuinfo_x86 *c)
{
	struct cpuid_words w = l4_cpuid(0, 0);
	u32 leaf;

	memcpy(c->x86_vendor_id, &w.ebx, 4);
	memcpy(c->x86_vendor_id + 4, &w.edx, 4);
	memcpy(c->x86_vendor_id + 8, &w.ecx, 4);
	if (l4_cpuid(CPUID_EXTENDED, 0).eax < CPUID_BRAND_LAST)
		return;
	for (leaf = CPUID_BRAND_FIRST; leaf <= CPUID_BRAND_LAST; leaf++) {
		w = l4_cpuid(leaf, 0);
		memcpy(c->x86_model_id + (leaf - CPUID_BRAND_FIRST) * sizeof(w), &w, sizeof(w));
	}
}

/* A processor without a name gets the one that x86 Linux gives it. */
static void __init l4_default_name(struct cpuinfo_x86 *c)
{
	if (c->x86_model_id[0])
		return;
	if (c->x86 == AMD_K8 && !strcmp(c->x86_vendor_id, "AuthenticAMD"))
		strscpy(c->x86_model_id, "Hammer", sizeof(c->x86_model_id));
	else
		snprintf(c->x86_model_id, sizeof(c->x86_model_id), "%02x/%02x", c->x86,
			 c->x86_model);
}

static void __init l4_read_sizes(struct cpuinfo_x86 *c)
{
	u32 sizes = DEFAULT_PHYS_BITS | DEFAULT_VIRT_BITS << 8;

	if (l4_cpuid(CPUID_EXTENDED, 0).eax >= CPUID_ADDRESS_SIZES)
		sizes = l4_cpuid(CPUID_ADDRESS_SIZES, 0).eax;
	c->x86_phys_bits = sizes & 0xff;
	l4_virt_bits = (sizes >> 8) & 0xff;
}

static void __init l4_read_signature(struct cpuinfo_x86 *c)
{
	struct cpuid_words w = l4_cpuid(1, 0);

	c->x86 = x86_family(w.eax);
	c->x86_model = x86_model(w.eax);
	c->x86_stepping = x86_stepping(w.eax);
	c->x86_cache_alignment = ((w.ebx >> 8) & 0xff) * 8;
	c->x86_capability[CPUID_1_EDX] = w.edx;
	c->x86_capability[CPUID_1_ECX] = w.ecx;
}

/* A feature that cannot be used unless the micro-kernel keeps these components of the FPU state. */
struct l4_xstate_features {
	u32 components;
	unsigned int feature;
};

static const struct l4_xstate_features l4_xstate_features[] __initconst = {
	{ XFEATURE_MASK_YMM, X86_FEATURE_AVX },
	{ XFEATURE_MASK_YMM, X86_FEATURE_F16C },
	{ XFEATURE_MASK_BNDREGS | XFEATURE_MASK_BNDCSR, X86_FEATURE_MPX },
	{ XFEATURE_MASK_AVX512, X86_FEATURE_AVX512F },
	{ XFEATURE_MASK_PKRU, X86_FEATURE_PKU },
	{ XFEATURE_MASK_PASID, X86_FEATURE_ENQCMD },
	{ XFEATURE_MASK_XTILE, X86_FEATURE_AMX_TILE },
	{ XFEATURE_MASK_XTILE, X86_FEATURE_AMX_INT8 },
	{ XFEATURE_MASK_XTILE, X86_FEATURE_AMX_BF16 },
};

/* Clears the features whose state is not kept, and all that depend on them. */
static void __init l4_clear_xstate_features(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(l4_xstate_features); i++)
		if (l4_xstate_features[i].components & ~keel_kip->fpu_mask)
			setup_clear_cpu_cap(l4_xstate_features[i].feature);
}

/* Fills in boot_cpu_data. Called once, by setup_arch(). */
void __init l4_cpu_init(void)
{
	struct cpuinfo_x86 *c = &boot_cpu_data;
	struct cpuid_words w;

	l4_read_names(c);
	l4_read_signature(c);
	l4_default_name(c);
	l4_read_sizes(c);
	w = l4_cpuid(0x80000001, 0);
	/* Linux maps nothing by pages of 1 GB. */
	c->x86_capability[CPUID_8000_0001_EDX] = w.edx & ~BIT(X86_FEATURE_GBPAGES & 31);
	c->x86_capability[CPUID_8000_0001_ECX] = w.ecx;
	if (l4_cpuid(0, 0).eax >= 7) {
		w = l4_cpuid(7, 0);
		c->x86_capability[CPUID_7_0_EBX] = w.ebx;
		c->x86_capability[CPUID_7_ECX] = w.ecx;
		c->x86_capability[CPUID_7_EDX] = w.edx;
	}
	l4_clear_xstate_features();
	if (keel_kip->features & KEEL_FEATURE_FSGSBASE)
		elf_hwcap2 |= HWCAP2_FSGSBASE;
	pr_info("CPU: %s %s\n", c->x86_vendor_id, c->x86_model_id);
}

/* Called for the vDSO, whose unpatched instructions run on every processor. */
void apply_alternatives(struct alt_instr *start, struct alt_instr *end)
{
}

extern const char *const x86_cap_flags[32 * NCAPINTS];

static int l4_cpuinfo_show(struct seq_file *m, void *v)
{
	struct cpuinfo_x86 *c = &boot_cpu_data;
	unsigned long khz = keel_kip->tsc_hz / 1000;
	unsigned int i;

	seq_printf(m, "processor\t: %lu\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n",
		   (unsigned long)v - 1, c->x86_vendor_id, c->x86, c->x86_model);
	seq_printf(m, "model name\t: %s\nstepping\t: %u\ncpu MHz\t\t: %lu.%03lu\n",
		   c->x86_model_id, c->x86_stepping, khz / 1000, khz % 1000);
	seq_puts(m, "fpu\t\t: yes\nflags\t\t:");
	for (i = 0; i < 32 * NCAPINTS; i++)
		if (test_bit(i, (unsigned long *)c->x86_capability) && x86_cap_flags[i])
			seq_printf(m, " %s", x86_cap_flags[i]);
	seq_printf(m, "\nbogomips\t: %lu.%02lu\nclflush size\t: %d\n",
		   loops_per_jiffy / (500000 / HZ), loops_per_jiffy / (5000 / HZ) % 100,
		   c->x86_cache_alignment);
	seq_printf(m, "address sizes\t: %u bits physical, %u bits virtual\n\n",
		   c->x86_phys_bits, l4_virt_bits);
	return 0;
}

/* The iterator is the processor's number plus one; every processor shows the same record. */
static void *l4_cpuinfo_start(struct seq_file *m, loff_t *pos)
{
	*pos = cpumask_next(*pos - 1, cpu_online_mask);
	return *pos < nr_cpu_ids ? (void *)(unsigned long)(*pos + 1) : NULL;
}

static void *l4_cpuinfo_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return l4_cpuinfo_start(m, pos);
}

static void l4_cpuinfo_stop(struct seq_file *m, void *v)
{
}

const struct seq_operations cpuinfo_op = {
	.start = l4_cpuinfo_start,
	.next = l4_cpuinfo_next,
	.stop = l4_cpuinfo_stop,
	.show = l4_cpuinfo_show,
};
