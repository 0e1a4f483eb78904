// SPDX-License-Identifier: GPL-2.0
/* Clients and devices that come and go at the same time: who is told, when, and when no more. */
#include <linux/slab.h>

#include "core_test.h"

/* A client that notes what it is told. Its callbacks may be held up. */
struct client {
	struct ib_client core;
	char letter;
	atomic_t added;
	atomic_t removed;
	atomic_t late;			/* calls after the end of the client */
	bool gone;
	struct completion *in_add;	/* completed by add(), which then waits ... */
	struct completion *in_remove;
	struct completion *go_on;	/* ... for this */
	struct ib_pd *pd;
	struct ib_cq *pooled;
};

static struct {
	spinlock_t lock;
	char text[64];
} diary = { .lock = __SPIN_LOCK_UNLOCKED(diary.lock) };

static void note(char letter, char what)
{
	size_t at;

	spin_lock(&diary.lock);
	at = strlen(diary.text);
	if (at + 2 < sizeof(diary.text)) {
		diary.text[at] = letter;
		diary.text[at + 1] = what;
		diary.text[at + 2] = 0;
	}
	spin_unlock(&diary.lock);
}

static void forget(void)
{
	spin_lock(&diary.lock);
	diary.text[0] = 0;
	spin_unlock(&diary.lock);
}

/* add() is not told which client is meant: one function for each. */
static struct client *clients[3];

static int added(struct client *c, struct ib_device *dev)
{
	/* Others have devices, too. */
	if (strncmp(dev_name(&dev->dev), "core", 4))
		return -EOPNOTSUPP;
	if (READ_ONCE(c->gone))
		atomic_inc(&c->late);
	atomic_inc(&c->added);
	note(c->letter, '+');
	if (c->in_add) {
		complete(c->in_add);
		wait_for_completion(c->go_on);
	}
	ib_set_client_data(dev, &c->core, c);
	return 0;
}

static int add0(struct ib_device *dev)
{
	return added(clients[0], dev);
}

static int add1(struct ib_device *dev)
{
	return added(clients[1], dev);
}

static int add2(struct ib_device *dev)
{
	return added(clients[2], dev);
}

static void removed(struct ib_device *dev, void *data)
{
	struct client *c = data;

	if (!c)
		return;
	if (READ_ONCE(c->gone))
		atomic_inc(&c->late);
	note(c->letter, '-');
	if (c->in_remove) {
		complete(c->in_remove);
		wait_for_completion(c->go_on);
	}
	if (c->pd) {
		ib_dealloc_pd(c->pd);
		c->pd = NULL;
	}
	if (!IS_ERR_OR_NULL(c->pooled)) {
		ib_cq_pool_put(c->pooled, 8);
		c->pooled = NULL;
	}
	atomic_inc(&c->removed);
}

static struct client *new_client(struct kunit *test, int at)
{
	static int (*const adds[])(struct ib_device *) = { add0, add1, add2 };
	struct client *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->core.name = "core_test";
	c->core.add = adds[at];
	c->core.remove = removed;
	c->letter = 'a' + at;
	clients[at] = c;
	return c;
}

static void leave(struct client *c)
{
	ib_unregister_client(&c->core);
	WRITE_ONCE(c->gone, true);
}

static void order_of_clients(struct kunit *test)
{
	const struct ib_fake_config config = { .name = "core%d" };
	struct ib_device *dev;
	int i;

	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, ib_register_client(&new_client(test, i)->core), 0);
	forget();
	dev = ib_fake_create(&config);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_EXPECT_STREQ(test, diary.text, "a+b+c+");
	/* One that leaves is told at once, and one that comes back is the last. */
	leave(clients[1]);
	KUNIT_EXPECT_STREQ(test, diary.text, "a+b+c+b-");
	new_client(test, 1);
	KUNIT_ASSERT_EQ(test, ib_register_client(&clients[1]->core), 0);
	KUNIT_EXPECT_STREQ(test, diary.text, "a+b+c+b-b+");
	forget();
	ib_fake_destroy(dev);
	KUNIT_EXPECT_STREQ(test, diary.text, "b-c-a-");
	for (i = 0; i < 3; i++)
		leave(clients[i]);
	KUNIT_EXPECT_STREQ(test, diary.text, "b-c-a-");
}

static void make(void *result)
{
	const struct ib_fake_config config = { .name = "core%d" };

	*(struct ib_device **)result = ib_fake_create(&config);
}

static void destroy(void *device)
{
	ib_fake_destroy(device);
}

static void unregister(void *client)
{
	leave(client);
}

static void leaving_waits_for_add(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(in_add);
	DECLARE_COMPLETION_ONSTACK(go_on);
	struct client *c = new_client(test, 0);
	struct core_task maker, leaver;
	struct ib_device *dev = NULL;

	KUNIT_ASSERT_EQ(test, ib_register_client(&c->core), 0);
	c->go_on = &go_on;
	c->in_add = &in_add;
	KUNIT_ASSERT_EQ(test, core_start(&maker, make, &dev), 0);
	wait_for_completion(&in_add);
	KUNIT_ASSERT_EQ(test, core_start(&leaver, unregister, c), 0);
	msleep(200);
	KUNIT_EXPECT_FALSE(test, core_is_done(&leaver));
	KUNIT_EXPECT_FALSE(test, core_is_done(&maker));
	complete_all(&go_on);
	KUNIT_EXPECT_TRUE(test, core_join(&maker));
	KUNIT_EXPECT_TRUE(test, core_join(&leaver));
	KUNIT_EXPECT_EQ(test, atomic_read(&c->added), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->removed), 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	ib_fake_destroy(dev);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->late), 0);
}

/* Both sides end at once: each waits until the client has let go, which is told once. */
static void both_ends_wait_for_remove(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(in_remove);
	DECLARE_COMPLETION_ONSTACK(go_on);
	struct client *c = new_client(test, 0);
	struct core_task leaver, destroyer;
	struct ib_device *dev = NULL, *other = NULL;
	struct core_task maker;

	KUNIT_ASSERT_EQ(test, ib_register_client(&c->core), 0);
	make(&dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	c->go_on = &go_on;
	c->in_remove = &in_remove;
	KUNIT_ASSERT_EQ(test, core_start(&destroyer, destroy, dev), 0);
	wait_for_completion(&in_remove);
	c->in_remove = NULL;
	KUNIT_ASSERT_EQ(test, core_start(&leaver, unregister, c), 0);
	/* No lock is held meanwhile that another device would need. */
	KUNIT_ASSERT_EQ(test, core_start(&maker, make, &other), 0);
	KUNIT_EXPECT_TRUE(test, core_wait_for(core_is_done(&maker)));
	KUNIT_EXPECT_FALSE(test, core_is_done(&leaver));
	KUNIT_EXPECT_FALSE(test, core_is_done(&destroyer));
	complete_all(&go_on);
	KUNIT_EXPECT_TRUE(test, core_join(&maker));
	KUNIT_EXPECT_TRUE(test, core_join(&destroyer));
	KUNIT_EXPECT_TRUE(test, core_join(&leaver));
	KUNIT_EXPECT_EQ(test, atomic_read(&c->removed), atomic_read(&c->added));
	KUNIT_EXPECT_EQ(test, atomic_read(&c->late), 0);
	if (!IS_ERR_OR_NULL(other))
		ib_fake_destroy(other);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->late), 0);
}

/* An older client, and what a younger one has of the core, stay until that one has let go. */
static void the_youngest_goes_first(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(in_remove);
	DECLARE_COMPLETION_ONSTACK(go_on);
	struct client *old = new_client(test, 0), *young = new_client(test, 1);
	struct core_task leaver, destroyer;
	struct ib_device *dev = NULL;

	KUNIT_ASSERT_EQ(test, ib_register_client(&old->core), 0);
	KUNIT_ASSERT_EQ(test, ib_register_client(&young->core), 0);
	make(&dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	young->pooled = ib_cq_pool_get(dev, 8, 0, IB_POLL_WORKQUEUE);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, young->pooled);
	young->go_on = &go_on;
	young->in_remove = &in_remove;
	KUNIT_ASSERT_EQ(test, core_start(&leaver, unregister, young), 0);
	wait_for_completion(&in_remove);
	KUNIT_ASSERT_EQ(test, core_start(&destroyer, destroy, dev), 0);
	msleep(300);
	KUNIT_EXPECT_EQ(test, atomic_read(&old->removed), 0);
	complete_all(&go_on);
	KUNIT_EXPECT_TRUE(test, core_join(&leaver));
	KUNIT_EXPECT_TRUE(test, core_join(&destroyer));
	KUNIT_EXPECT_EQ(test, atomic_read(&old->removed), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&young->removed), 1);
	leave(old);
}

static void the_end_of_a_device_waits_for_references(struct kunit *test)
{
	struct client *c = new_client(test, 0);
	struct core_task destroyer;
	struct ib_device *dev = NULL;

	KUNIT_ASSERT_EQ(test, ib_register_client(&c->core), 0);
	make(&dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_ASSERT_TRUE(test, ib_device_try_get(dev));
	KUNIT_ASSERT_EQ(test, core_start(&destroyer, destroy, dev), 0);
	/* Clients go first, then references are waited for. */
	KUNIT_EXPECT_TRUE(test, core_wait_for(atomic_read(&c->removed) == 1));
	msleep(200);
	KUNIT_EXPECT_FALSE(test, core_is_done(&destroyer));
	KUNIT_EXPECT_PTR_EQ(test, ib_get_client_data(dev, &c->core), NULL);
	ib_device_put(dev);
	KUNIT_EXPECT_TRUE(test, core_join(&destroyer));
	leave(c);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->removed), 1);
}

static void remove_may_use_the_device(struct kunit *test)
{
	struct client *c = new_client(test, 0);
	struct ib_device *dev = NULL;

	KUNIT_ASSERT_EQ(test, ib_register_client(&c->core), 0);
	make(&dev);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	c->pd = ib_alloc_pd(dev, 0);
	KUNIT_EXPECT_FALSE(test, IS_ERR_OR_NULL(c->pd));
	if (IS_ERR(c->pd))
		c->pd = NULL;
	ib_fake_destroy(dev);
	KUNIT_EXPECT_PTR_EQ(test, c->pd, NULL);
	leave(c);
}

/*
 * Everybody at once, for a while: rounds for which there is time, but enough of them that
 * every order of two steps can come about.
 */
#define CROWD_TIME	(3 * HZ)
#define CROWD_ROUNDS	25
#define CROWD_LEAST	3

struct crowd {
	bool stop;
	unsigned long end;
	atomic_t wrong;
	atomic_t seen;
	atomic_t made;
	atomic_t makers;
	spinlock_t lock;
	struct ib_device *there[3];	/* under the lock */
	struct client *stays;
};

static void come_and_go_devices(void *arg)
{
	struct crowd *crowd = arg;
	int i, at = atomic_inc_return(&crowd->makers) - 1;
	struct ib_device *dev;

	for (i = 0; i < CROWD_ROUNDS; i++) {
		if (i >= CROWD_LEAST && time_after(jiffies, crowd->end))
			break;
		make(&dev);
		if (IS_ERR(dev)) {
			atomic_inc(&crowd->wrong);
			continue;
		}
		atomic_inc(&crowd->made);
		/* It is told of by the time that it is there. */
		if (ib_get_client_data(dev, &crowd->stays->core) != crowd->stays)
			atomic_inc(&crowd->wrong);
		spin_lock(&crowd->lock);
		crowd->there[at] = dev;
		spin_unlock(&crowd->lock);
		cond_resched();
		spin_lock(&crowd->lock);
		crowd->there[at] = NULL;
		spin_unlock(&crowd->lock);
		ib_fake_destroy(dev);
	}
}

static void come_and_go_clients(void *arg)
{
	struct crowd *crowd = arg;
	struct client *c = clients[1];

	while (!READ_ONCE(crowd->stop)) {
		WRITE_ONCE(c->gone, false);
		if (ib_register_client(&c->core))
			atomic_inc(&crowd->wrong);
		usleep_range(50, 500);
		leave(c);
		/* Whoever was told of a device was told of its end. */
		if (atomic_read(&c->added) != atomic_read(&c->removed))
			atomic_inc(&crowd->wrong);
	}
}

static void look(void *arg)
{
	struct crowd *crowd = arg;
	int i = 0;

	while (!READ_ONCE(crowd->stop)) {
		struct ib_device *dev;
		void *data;

		spin_lock(&crowd->lock);
		dev = crowd->there[i++ % 3];
		if (dev && !ib_device_try_get(dev)) {
			atomic_inc(&crowd->wrong);
			dev = NULL;
		}
		spin_unlock(&crowd->lock);
		if (!dev) {
			/* Whoever makes devices has the CPU. */
			usleep_range(200, 500);
			continue;
		}
		/* The end of the device may have begun. */
		data = ib_get_client_data(dev, &crowd->stays->core);
		if (data && data != crowd->stays)
			atomic_inc(&crowd->wrong);
		if (data)
			atomic_inc(&crowd->seen);
		ib_device_put(dev);
		usleep_range(50, 100);
	}
}

static void everybody_at_once(struct kunit *test)
{
	struct core_task makers[3], others[3];
	struct crowd crowd = { .stays = new_client(test, 0), .end = jiffies + CROWD_TIME };
	int i, made;

	new_client(test, 1);
	spin_lock_init(&crowd.lock);
	KUNIT_ASSERT_EQ(test, ib_register_client(&crowd.stays->core), 0);
	KUNIT_ASSERT_EQ(test, core_start(&others[0], look, &crowd), 0);
	KUNIT_ASSERT_EQ(test, core_start(&others[1], look, &crowd), 0);
	KUNIT_ASSERT_EQ(test, core_start(&others[2], come_and_go_clients, &crowd), 0);
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, core_start(&makers[i], come_and_go_devices, &crowd), 0);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, core_join(&makers[i]));
	WRITE_ONCE(crowd.stop, true);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, core_join(&others[i]));
	leave(crowd.stays);
	KUNIT_EXPECT_EQ(test, atomic_read(&crowd.wrong), 0);
	made = atomic_read(&crowd.made);
	KUNIT_EXPECT_GE(test, made, 3 * CROWD_LEAST);
	KUNIT_EXPECT_EQ(test, atomic_read(&clients[0]->added), made);
	KUNIT_EXPECT_EQ(test, atomic_read(&clients[0]->removed), made);
	KUNIT_EXPECT_EQ(test, atomic_read(&clients[0]->late), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&clients[1]->late), 0);
}

static struct kunit_case core_client_cases[] = {
	KUNIT_CASE(order_of_clients),
	KUNIT_CASE(leaving_waits_for_add),
	KUNIT_CASE(both_ends_wait_for_remove),
	KUNIT_CASE(the_youngest_goes_first),
	KUNIT_CASE(the_end_of_a_device_waits_for_references),
	KUNIT_CASE(remove_may_use_the_device),
	KUNIT_CASE_SLOW(everybody_at_once),
	{}
};

struct kunit_suite core_client_suite = {
	.name = "ib_core_clients",
	.test_cases = core_client_cases,
};
