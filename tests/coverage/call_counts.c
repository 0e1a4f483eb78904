// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the calls of functions of a module, by a probe on the entry of each.
 *
 * Names are written to /sys/kernel/debug/call_counts, one a line; it reads as
 * "NAME CALLS", or "NAME -" where no probe could ever be set. The probes are
 * set before the first code of the module runs, each time that it is loaded,
 * and what was counted stays when it goes.
 *
 * The kernel's own probes by name (kprobe_events) refuse what the function
 * tracer does not know, which is all of Rust.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define NAMES_MAX 65536

static char *of = "ib_core";
module_param(of, charp, 0444);
MODULE_PARM_DESC(of, "The module whose functions are counted");

struct counted {
	struct list_head list;
	struct kprobe probe;
	atomic_long_t calls;
	bool set;		/* now */
	bool possible;		/* at any time */
	char symbol[];		/* MODULE:NAME */
};

static LIST_HEAD(functions);
static DEFINE_MUTEX(lock);	/* of functions, set and possible */
static struct dentry *file;

static int entered(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_long_inc(&container_of(probe, struct counted, probe)->calls);
	return 0;
}

/* A probe that has this is not optimised: no code is patched behind our back. */
static void passed(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static void set_probe(struct counted *f)
{
	memset(&f->probe, 0, sizeof(f->probe));
	f->probe.symbol_name = f->symbol;
	f->probe.pre_handler = entered;
	f->probe.post_handler = passed;
	f->set = !register_kprobe(&f->probe);
	f->possible |= f->set;
}

static void clear_probe(struct counted *f)
{
	if (f->set)
		unregister_kprobe(&f->probe);
	f->set = false;
}

static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *module = data;
	struct counted *f;

	if (strcmp(module->name, of))
		return NOTIFY_DONE;
	guard(mutex)(&lock);
	list_for_each_entry(f, &functions, list) {
		if (state == MODULE_STATE_COMING && !f->set)
			set_probe(f);
		else if (state == MODULE_STATE_GOING)
			clear_probe(f);
	}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = {
	.notifier_call = on_module,
};

static int add(const char *name)
{
	size_t size = strlen(of) + 1 + strlen(name) + 1;
	struct counted *f = kzalloc(struct_size(f, symbol, size), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	snprintf(f->symbol, size, "%s:%s", of, name);
	set_probe(f);
	list_add_tail(&f->list, &functions);
	return 0;
}

static ssize_t names_write(struct file *filp, const char __user *buf, size_t count, loff_t *pos)
{
	char *text, *rest, *name;
	int err = 0;

	if (count > NAMES_MAX)
		return -E2BIG;
	text = memdup_user_nul(buf, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	mutex_lock(&lock);
	while (!err && (name = strsep(&rest, "\n")))
		if (*name)
			err = add(name);
	mutex_unlock(&lock);
	kfree(text);
	return err ?: count;
}

static int counts_show(struct seq_file *seq, void *unused)
{
	struct counted *f;

	guard(mutex)(&lock);
	list_for_each_entry(f, &functions, list) {
		seq_printf(seq, "%s ", f->symbol + strlen(of) + 1);
		if (f->possible)
			seq_printf(seq, "%ld\n", atomic_long_read(&f->calls));
		else
			seq_puts(seq, "-\n");
	}
	return 0;
}

static int counts_open(struct inode *inode, struct file *filp)
{
	return single_open(filp, counts_show, NULL);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = counts_open,
	.read = seq_read,
	.write = names_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init counts_init(void)
{
	int err = register_module_notifier(&notifier);

	if (err)
		return err;
	file = debugfs_create_file("call_counts", 0600, NULL, NULL, &operations);
	return 0;
}

static void __exit counts_exit(void)
{
	struct counted *f, *next;

	debugfs_remove(file);
	unregister_module_notifier(&notifier);
	list_for_each_entry_safe(f, next, &functions, list) {
		clear_probe(f);
		kfree(f);
	}
}

module_init(counts_init);
module_exit(counts_exit);

MODULE_DESCRIPTION("Calls of a module's functions, counted");
MODULE_LICENSE("GPL");
