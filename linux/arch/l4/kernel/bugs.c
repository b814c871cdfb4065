// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Linux reports of the processor's vulnerabilities: in /sys/devices/system/cpu/vulnerabilities
 * and by prctl(PR_GET_SPECULATION_CTRL). Only the micro-kernel could read the registers that say
 * whether a processor is affected, so a processor is reported as affected if any of its vendor's
 * is. The mitigations are those that docs/caveats.md describes of the micro-kernel; none can be
 * switched.
 */
#include <linux/bits.h>
#include <linux/cpu.h>
#include <linux/nospec.h>
#include <linux/prctl.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <asm/processor.h>

#define AMD 1U		/* and Hygon, whose processors are of AMD's design */
#define OTHERS 2U	/* all other vendors */

/* CPUID of AMD's processors says whether loads bypass stores; up to this family they do not. */
#define AMD_LAST_IN_ORDER 0x12
#define AMD_FEATURES 0x80000008
#define AMD_SSB_NO BIT(26)

static unsigned int l4_cpu_maker(void)
{
	const char *name = boot_cpu_data.x86_vendor_id;

	return !strcmp(name, "AuthenticAMD") || !strcmp(name, "HygonGenuine") ? AMD : OTHERS;
}

static bool l4_loads_bypass_stores(void)
{
	unsigned int eax = AMD_FEATURES, ebx, ecx = 0, edx;

	if (l4_cpu_maker() != AMD)
		return true;
	native_cpuid(&eax, &ebx, &ecx, &edx);
	return boot_cpu_data.x86 > AMD_LAST_IN_ORDER && !(ebx & AMD_SSB_NO);
}

static ssize_t l4_show_bug(char *buf, unsigned int affected, const char *state)
{
	return sysfs_emit(buf, "%s\n", affected & l4_cpu_maker() ? state : "Not affected");
}

#define SHOW(name, affected, state)						\
ssize_t cpu_show_##name(struct device *dev, struct device_attribute *attr,	\
			char *buf)						\
{										\
	return l4_show_bug(buf, affected, state);					\
}

SHOW(spectre_v1, AMD | OTHERS, "Mitigation: masked indices and swapgs barriers")
SHOW(spectre_v2, AMD | OTHERS, "Vulnerable")
SHOW(spec_store_bypass, l4_loads_bypass_stores() ? AMD | OTHERS : 0, "Vulnerable")
SHOW(retbleed, AMD | OTHERS, "Vulnerable")
SHOW(meltdown, OTHERS, "Vulnerable")
SHOW(l1tf, OTHERS, "Vulnerable")
SHOW(mds, OTHERS, "Vulnerable")
SHOW(tsx_async_abort, OTHERS, "Vulnerable")
SHOW(itlb_multihit, OTHERS, "Vulnerable")
SHOW(mmio_stale_data, OTHERS, "Vulnerable")
SHOW(reg_file_data_sampling, OTHERS, "Vulnerable")
SHOW(indirect_target_selection, OTHERS, "Vulnerable")
SHOW(spec_rstack_overflow, AMD, "Vulnerable")
SHOW(tsa, AMD, "Vulnerable")
SHOW(vmscape, AMD | OTHERS, "Not affected")	/* no virtual machines */
/* Only microcode mitigates these, and the firmware loads it. */
SHOW(srbds, OTHERS, "Unknown: Dependent on microcode")
SHOW(gds, OTHERS, "Unknown: Dependent on microcode")

int arch_prctl_spec_ctrl_get(struct task_struct *task, unsigned long which)
{
	switch (which) {
	case PR_SPEC_STORE_BYPASS:
		return l4_loads_bypass_stores() ? PR_SPEC_ENABLE : PR_SPEC_NOT_AFFECTED;
	case PR_SPEC_INDIRECT_BRANCH:
		return PR_SPEC_ENABLE;
	case PR_SPEC_L1D_FLUSH:
		return PR_SPEC_FORCE_DISABLE;
	}
	return -ENODEV;
}

/* Returns what x86 without mitigations returns. */
int arch_prctl_spec_ctrl_set(struct task_struct *task, unsigned long which, unsigned long ctrl)
{
	switch (which) {
	case PR_SPEC_STORE_BYPASS:
		return -ENXIO;
	case PR_SPEC_INDIRECT_BRANCH:
		if (ctrl == PR_SPEC_ENABLE)
			return 0;
		return ctrl == PR_SPEC_DISABLE || ctrl == PR_SPEC_FORCE_DISABLE ? -EPERM : -ERANGE;
	case PR_SPEC_L1D_FLUSH:
		return -EPERM;
	}
	return -ENODEV;
}
