// SPDX-License-Identifier: GPL-2.0
/*
 * Log lines of drivers and the core about a device: variadic functions, which
 * stable Rust cannot define.
 */

#include <linux/device.h>
#include <linux/printk.h>
#include <linux/stdarg.h>
#include <rdma/ib_verbs.h>

/*
 * The copy of the name that lies in the device; a rename frees the one of the
 * driver model. Until there is a copy, the latter does not change.
 */
static const char *name_of(const struct ib_device *ibdev)
{
	return ibdev->name[0] ? ibdev->name : dev_name(&ibdev->dev);
}

/* With what is known of the device in front: driver, bus device, name. */
static void emit(const char *level, const struct ib_device *ibdev, struct va_format *text)
{
	const struct device *parent = ibdev ? ibdev->dev.parent : NULL;

	if (parent)
		dev_printk_emit(level[1] - '0', parent, "%s %s %s: %pV", dev_driver_string(parent),
				dev_name(parent), name_of(ibdev), text);
	else if (ibdev)
		printk("%s%s: %pV", level, name_of(ibdev), text);
	else
		printk("%s(NULL ib_device): %pV", level, text);
}

#define RDMA_PRINTER(name, level)					\
void name(const struct ib_device *ibdev, const char *fmt, ...)		\
{									\
	struct va_format text = { .fmt = fmt };				\
	va_list args;							\
									\
	va_start(args, fmt);						\
	text.va = &args;						\
	emit(level, ibdev, &text);					\
	va_end(args);							\
}									\
EXPORT_SYMBOL(name)

RDMA_PRINTER(ibdev_emerg, KERN_EMERG);
RDMA_PRINTER(ibdev_alert, KERN_ALERT);
RDMA_PRINTER(ibdev_crit, KERN_CRIT);
RDMA_PRINTER(ibdev_err, KERN_ERR);
RDMA_PRINTER(ibdev_warn, KERN_WARNING);
RDMA_PRINTER(ibdev_notice, KERN_NOTICE);
RDMA_PRINTER(ibdev_info, KERN_INFO);
