// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time: the time stamp counter is the clock source and times delays, a timer of the micro-kernel on
 * each processor is the clock event device, and the CMOS clock has the date.
 */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/init.h>
#include <linux/mc146818rtc.h>
#include <linux/sched/clock.h>
#include <asm/l4.h>
#include <asm/msr.h>

#define CMOS_PORTS_LOG2 1
#define CMOS_TIMEOUT_MS 1000
#define TIMER_MIN_NS 1000
#define TIMER_MAX_NS (NSEC_PER_SEC * 3600UL)

DEFINE_PER_CPU(unsigned long, l4_timer);
DEFINE_SPINLOCK(rtc_lock);
EXPORT_SYMBOL(rtc_lock);

/* The micro-kernel's time in nanoseconds, as its KIP defines it. */
u64 notrace sched_clock(void)
{
	return (unsigned __int128)(rdtsc() - keel_kip->tsc_base) * keel_kip->tsc_mult >>
	       keel_kip->tsc_shift;
}

static u64 notrace l4_read_tsc(struct clocksource *cs)
{
	return rdtsc_ordered();
}

static struct clocksource l4_tsc_clock = {
	.name = "tsc",
	.rating = 300,
	.read = l4_read_tsc,
	.mask = CLOCKSOURCE_MASK(64),
	.vdso_clock_mode = VDSO_CLOCKMODE_TSC,
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

/* Arms this processor's timer for an absolute time, or disarms it (KEEL_TIMER_OFF). */
static void l4_set_timer(unsigned long when)
{
	struct keel_message m = { .tag = KEEL_TAG(KEEL_TIMER_SET, 1), .words = { when } };

	keel_ipc(KEEL_IPC_SEND, this_cpu_read(l4_timer), 0, &m);
}

static int l4_timer_next(unsigned long delta, struct clock_event_device *device)
{
	l4_set_timer(sched_clock() + delta);
	return 0;
}

static int l4_timer_stop(struct clock_event_device *device)
{
	l4_set_timer(KEEL_TIMER_OFF);
	return 0;
}

static DEFINE_PER_CPU(struct clock_event_device, l4_timer_device) = {
	.name = "keel",
	.features = CLOCK_EVT_FEAT_ONESHOT,
	.rating = 300,
	.set_next_event = l4_timer_next,
	.set_state_shutdown = l4_timer_stop,
	.set_state_oneshot_stopped = l4_timer_stop,
};

/* Called by the IRQ thread, with interrupts off. */
void l4_timer_interrupt(void)
{
	struct clock_event_device *device = this_cpu_ptr(&l4_timer_device);

	device->event_handler(device);
}

/* Registers this processor's timer as a clock event device. */
void l4_timer_init(void)
{
	struct clock_event_device *device = this_cpu_ptr(&l4_timer_device);

	device->cpumask = cpumask_of(smp_processor_id());
	clockevents_config_and_register(device, NSEC_PER_SEC, TIMER_MIN_NS, TIMER_MAX_NS);
}

void __init time_init(void)
{
	clocksource_register_hz(&l4_tsc_clock, keel_kip->tsc_hz);
	l4_timer_init();
}

/* If the server has no right over the ports, the date is the epoch's. */
void read_persistent_clock64(struct timespec64 *now)
{
	struct rtc_time date;

	*now = (struct timespec64){ };
	if (keel_map_ports(RTC_PORT(0), CMOS_PORTS_LOG2) &&
	    !mc146818_get_time(&date, CMOS_TIMEOUT_MS))
		now->tv_sec = rtc_tm_to_time64(&date);
}
