// SPDX-License-Identifier: GPL-2.0-only
/*
 * The processor's features, read by CPUID at boot: for Linux's feature tests, the auxiliary vector
 * and /proc/cpuinfo. All processors are alike, so one record serves for all.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/string.h>
#include <asm/alternative.h>
#include <asm/cpufeature.h>
#include <asm/fpu/types.h>
#include <asm/l4.h>
#include <asm/processor.h>
#include <uapi/asm/hwcap2.h>
#include <x86/kernel/cpu/cpu.h>

#define AMD_K8 0xf

/* What Linux assumes of a processor that does not report its sizes. */
struct cpuinfo_x86 boot_cpu_data = {
	.x86_phys_bits = 36,
	.x86_virt_bits = 48,
	.x86_clflush_size = 64,
	.x86_cache_alignment = 64,
};
EXPORT_SYMBOL(boot_cpu_data);
u32 elf_hwcap2 __read_mostly;

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

/* A feature that cannot be used unless the micro-kernel keeps these components of the FPU state. */
static const struct {
	u32 components;
	unsigned int feature;
} l4_xstate_features[] __initconst = {
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

	cpu_detect(c);
	get_cpu_cap(c);
	get_cpu_address_sizes(c);
	get_model_name(c);
	l4_default_name(c);
	setup_clear_cpu_cap(X86_FEATURE_GBPAGES);	/* Linux maps nothing by pages of 1 GB */
	l4_clear_xstate_features();
	if (keel_kip->features & KEEL_FEATURE_FSGSBASE)
		elf_hwcap2 |= HWCAP2_FSGSBASE;
	pr_info("CPU: %s %s\n", c->x86_vendor_id, c->x86_model_id);
}

/* Called for the vDSO, whose unpatched instructions run on every processor. */
void apply_alternatives(struct alt_instr *start, struct alt_instr *end)
{
}
