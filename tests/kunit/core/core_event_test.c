// SPDX-License-Identifier: GPL-2.0
/* Events: from any context, to handlers that come and go. */
#include <linux/irq_work.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <rdma/ib_cache.h>

#include "core_test.h"

#define POISON	0x5a5a5a5a

struct listener {
	struct ib_event_handler core;
	u32 magic;
	atomic_t *heard;
	atomic_t *wrong;
	u32 order;
	u32 last;
	bool slow;
};

static atomic_t turn;

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct listener *l = container_of(handler, struct listener, core);

	if (event->event != IB_EVENT_LID_CHANGE)
		return;
	if (READ_ONCE(l->magic) == POISON || !preemptible())
		atomic_inc(l->wrong);
	l->order = atomic_inc_return(&turn);
	if (l->slow)
		msleep(20);
	if (READ_ONCE(l->magic) == POISON)
		atomic_inc(l->wrong);
	atomic_inc(l->heard);
}

struct events {
	struct ib_device *dev;
	atomic_t heard;
	atomic_t wrong;
};

static int events_init(struct kunit *test)
{
	struct events *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	if (!e)
		return -ENOMEM;
	test->priv = e;
	e->dev = core_device(test, "core%d");
	atomic_set(&turn, 0);
	return 0;
}

static void listen(struct events *e, struct listener *l, atomic_t *heard, bool slow)
{
	memset(l, 0, sizeof(*l));
	l->heard = heard;
	l->slow = slow;
	l->wrong = &e->wrong;
	INIT_IB_EVENT_HANDLER(&l->core, e->dev, on_event);
	ib_register_event_handler(&l->core);
}

static void dispatch(struct ib_device *dev, u32 port)
{
	const struct ib_event event = {
		.device = dev,
		.event = IB_EVENT_LID_CHANGE,
		.element.port_num = port,
	};

	ib_dispatch_event(&event);
}

struct source {
	struct irq_work hard;
	struct timer_list soft;
	struct ib_device *dev;
};

static void from_irq(struct irq_work *work)
{
	dispatch(container_of(work, struct source, hard)->dev, 1);
}

static void from_timer(struct timer_list *timer)
{
	struct source *source = timer_container_of(source, timer, soft);

	dispatch(source->dev, 1);
}

/* Wherever it comes from, handlers may sleep: on_event() looks. */
static void from_any_context(struct kunit *test)
{
	struct events *e = test->priv;
	struct source source = { .dev = e->dev };
	unsigned long flags;
	spinlock_t lock;
	struct listener l;

	spin_lock_init(&lock);
	listen(e, &l, &e->heard, true);
	spin_lock_irqsave(&lock, flags);
	dispatch(e->dev, 1);
	spin_unlock_irqrestore(&lock, flags);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 1));

	init_irq_work(&source.hard, from_irq);
	irq_work_queue(&source.hard);
	irq_work_sync(&source.hard);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 2));

	timer_setup_on_stack(&source.soft, from_timer, 0);
	mod_timer(&source.soft, jiffies + 1);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 3));
	timer_delete_sync(&source.soft);
	timer_destroy_on_stack(&source.soft);

	rcu_read_lock();
	dispatch(e->dev, 1);
	rcu_read_unlock();
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 4));
	ib_unregister_event_handler(&l.core);
	KUNIT_EXPECT_EQ(test, atomic_read(&e->wrong), 0);
}

static void in_the_order_of_registration(struct kunit *test)
{
	struct events *e = test->priv;
	struct listener l[4];
	int i;

	for (i = 0; i < 4; i++)
		listen(e, &l[i], &e->heard, false);
	/* One that left and came back is the last. */
	ib_unregister_event_handler(&l[1].core);
	listen(e, &l[1], &e->heard, false);
	dispatch(e->dev, 1);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 4));
	KUNIT_EXPECT_EQ(test, l[0].order, 1);
	KUNIT_EXPECT_EQ(test, l[2].order, 2);
	KUNIT_EXPECT_EQ(test, l[3].order, 3);
	KUNIT_EXPECT_EQ(test, l[1].order, 4);
	for (i = 0; i < 4; i++)
		ib_unregister_event_handler(&l[i].core);
}

static void dispatch_many(void *arg)
{
	struct events *e = arg;
	int i;

	for (i = 0; i < 400; i++) {
		dispatch(e->dev, 1);
		if (!(i % 20))
			usleep_range(1000, 2000);
	}
}

static void handlers_leave_meanwhile(struct kunit *test)
{
	struct events *e = test->priv;
	struct core_task thread;
	struct listener stays;
	int rounds = 0;
	atomic_t other;

	atomic_set(&other, 0);
	listen(e, &stays, &e->heard, false);
	KUNIT_ASSERT_EQ(test, core_start(&thread, dispatch_many, e), 0);
	while (!core_is_done(&thread) || rounds < 50) {
		struct listener *l = kmalloc_obj(*l);

		KUNIT_ASSERT_NOT_NULL(test, l);
		listen(e, l, &other, rounds % 2);
		if (rounds % 3)
			usleep_range(500, 1500);
		ib_unregister_event_handler(&l->core);
		/* It is not called any more, and it is not being called. */
		WRITE_ONCE(l->magic, POISON);
		kfree(l);
		rounds++;
	}
	KUNIT_EXPECT_TRUE(test, core_join(&thread));
	/* Nobody else's events were lost by that. */
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 400));
	ib_unregister_event_handler(&stays.core);
	KUNIT_EXPECT_EQ(test, atomic_read(&e->wrong), 0);
}

static void only_what_the_cache_can_follow(struct kunit *test)
{
	struct events *e = test->priv;
	struct listener l;

	listen(e, &l, &e->heard, false);
	/* The port cannot be asked, so nobody is told that it has changed. */
	ib_fake_fail(e->dev, IB_FAKE_QUERY_PORT, 0, -EIO);
	dispatch(e->dev, 1);
	msleep(200);
	KUNIT_EXPECT_EQ(test, atomic_read(&e->heard), 0);
	ib_fake_fail(e->dev, IB_FAKE_QUERY_PORT, 0, 0);
	dispatch(e->dev, 1);
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&e->heard) == 1));
	/* Nor of a port that is not there. */
	dispatch(e->dev, 7);
	dispatch(e->dev, 0);
	msleep(200);
	KUNIT_EXPECT_EQ(test, atomic_read(&e->heard), 1);
	ib_unregister_event_handler(&l.core);
}

/* The cache follows all events of a burst, in whichever order they are worked on. */
static void the_last_change_is_seen(struct kunit *test)
{
	struct events *e = test->priv;
	struct ib_port_attr attr;
	enum ib_port_state state;
	u8 lmc = 0;
	int i;

	for (i = 1; i <= 40; i++) {
		KUNIT_ASSERT_EQ(test, ib_fake_get_port(e->dev, 1, &attr), 0);
		attr.lmc = i % 8;
		attr.state = i % 2 ? IB_PORT_DOWN : IB_PORT_ACTIVE;
		KUNIT_ASSERT_EQ(test, ib_fake_set_port(e->dev, 1, &attr), 0);
		ib_fake_event(e->dev, 1, i % 2 ? IB_EVENT_PORT_ERR : IB_EVENT_PORT_ACTIVE);
	}
	KUNIT_EXPECT_TRUE(test, core_wait_for(!ib_get_cached_lmc(e->dev, 1, &lmc) &&
					      lmc == attr.lmc &&
					      !ib_get_cached_port_state(e->dev, 1, &state) &&
					      state == attr.state));
	/* And stays so when all have been worked on. */
	msleep(100);
	KUNIT_EXPECT_EQ(test, ib_get_cached_lmc(e->dev, 1, &lmc), 0);
	KUNIT_EXPECT_EQ(test, lmc, attr.lmc);
}

static void a_device_goes_with_events_on_their_way(struct kunit *test)
{
	const struct ib_fake_config config = { .name = "core%d" };
	struct events *e = test->priv;
	int i, k;

	for (i = 0; i < 4; i++) {
		struct ib_device *dev = ib_fake_create(&config);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
		for (k = 0; k < 20; k++)
			ib_fake_event(dev, 1, k % 2 ? IB_EVENT_GID_CHANGE : IB_EVENT_SM_CHANGE);
		ib_fake_destroy(dev);
	}
	/* What is left would be seen by the checkers. */
	KUNIT_EXPECT_EQ(test, atomic_read(&e->wrong), 0);
}

static struct kunit_case core_event_cases[] = {
	KUNIT_CASE(from_any_context),
	KUNIT_CASE(in_the_order_of_registration),
	KUNIT_CASE_SLOW(handlers_leave_meanwhile),
	KUNIT_CASE(only_what_the_cache_can_follow),
	KUNIT_CASE(the_last_change_is_seen),
	KUNIT_CASE(a_device_goes_with_events_on_their_way),
	{}
};

struct kunit_suite core_event_suite = {
	.name = "ib_core_events",
	.init = events_init,
	.test_cases = core_event_cases,
};
